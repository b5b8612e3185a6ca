"""The methods once more, as loops straight from the papers' equations; shares nothing with agentrl.advantage.

Rows are dicts. Every function returns a list, one number per row.
"""

import math


def mean(xs):
    return math.fsum(xs) / len(xs)


def std(xs, ddof):
    if len(xs) <= ddof:
        return 0.0
    m = mean(xs)
    return math.sqrt(math.fsum((x - m) ** 2 for x in xs) / (len(xs) - ddof))


def normed(x, members, mode="mean_std", ddof=1, eps=1e-6, floor=1e-5):
    """(x - mean) / (std + eps) over ``members``; 0 for a group of one or without spread."""
    if len(members) < 2:
        return 0.0
    spread = std(members, ddof)
    if spread == 0 or spread < floor:
        return 0.0
    return (x - mean(members)) / (spread + eps if mode == "mean_std" else 1.0)


def trajectory(rows, row):
    """Rows of the same trajectory, in the order of their turns."""
    return sorted((r for r in rows if r["trajectory"] == row["trajectory"]), key=lambda r: r["turn"])


def punished(row, penalty):
    return row["reward"] - (0.0 if row.get("valid", True) else penalty)


def to_go(rows, row, gamma, penalty):
    """Eq. 1 of PTGPO, Eq. 5 of GiGPO."""
    return math.fsum(
        gamma ** (r["turn"] - row["turn"]) * punished(r, penalty)
        for r in trajectory(rows, row)
        if r["turn"] >= row["turn"]
    )


def task_trajectories(rows, group):
    return {r["trajectory"] for r in rows if r["group"] == group}


def episode(rows, outcome, **norm):
    """Group-normalised ``outcome(trajectory rows)``, over the trajectories of the task."""
    value = {
        t: outcome(sorted((r for r in rows if r["trajectory"] == t), key=lambda r: r["turn"]))
        for t in {r["trajectory"] for r in rows}
    }
    return [
        normed(value[r["trajectory"]], [value[t] for t in task_trajectories(rows, r["group"])], **norm) for r in rows
    ]


def grpo(rows, penalty=0.0, **norm):
    return episode(rows, lambda turns: math.fsum(punished(r, penalty) for r in turns), **norm)


def gigpo(rows, gamma=0.95, omega=1.0, penalty=0.0, **norm):
    episodes = grpo(rows, penalty, **norm)
    returns = [to_go(rows, r, gamma, penalty) for r in rows]
    result = []
    for r, a_e, value in zip(rows, episodes, returns, strict=True):
        anchor = [
            v for o, v in zip(rows, returns, strict=True) if o["group"] == r["group"] and o["state"] == r["state"]
        ]
        result.append(a_e + omega * normed(value, anchor, **norm))
    return result


def ptgpo(
    rows,
    gamma=0.95,
    tau=2,
    max_depth=None,
    aggregate="sum",
    penalty=0.0,
    tree_penalty=False,
    episode_reward="terminal",
    ddof=1,
    floor=1e-5,
    tree=True,
    merge=True,
    with_edges=False,
):
    def outcome(turns):
        earned = turns[-1]["reward"] if episode_reward == "terminal" else math.fsum(r["reward"] for r in turns)
        return earned - penalty * sum(not r.get("valid", True) for r in turns)

    a_e = episode(rows, outcome, ddof=ddof, floor=floor, eps=0.0)
    if not tree:
        return a_e
    returns = {id(r): to_go(rows, r, gamma, penalty if tree_penalty else 0.0) for r in rows}
    path = {id(r): trajectory(rows, r)[[o["turn"] for o in trajectory(rows, r)].index(r["turn"]) :] for r in rows}

    def name(row):
        return ("invalid",) if merge and not row.get("valid", True) else (row.get("valid", True), row["action"])

    def node(start, depth):
        """p(s, a_d): rows of the task in the state of ``start`` that share its next ``depth`` actions (Eq. 3)."""
        return [
            o
            for o in rows
            if o["group"] == start["group"]
            and o["state"] == start["state"]
            and len(path[id(o)]) >= depth
            and all(name(path[id(o)][d]) == name(path[id(start)][d]) for d in range(depth))
        ]

    def mu(members):
        return mean([returns[id(o)] for o in members])

    credits = {id(r): [] for r in rows}  # by start, later starts later
    for r in rows:
        turns = trajectory(rows, r)
        k = [o["turn"] for o in turns].index(r["turn"])
        for t in range(k + 1):
            start, last = turns[t], k - t  # the edge from depth ``last`` to ``last + 1``
            if any(len(node(start, d)) < tau for d in range(last + 1)):
                continue
            if max_depth is not None and last >= max_depth:
                continue
            sigma = std([returns[id(o)] for o in node(start, 0)], ddof)
            delta = mu(node(start, last + 1)) - mu(node(start, last))
            credits[id(r)].append(0.0 if sigma == 0 or sigma < floor or len(node(start, 0)) < 2 else delta / sigma)
    if with_edges:
        return credits
    result = []
    for r, e in zip(rows, a_e, strict=True):
        c = credits[id(r)]
        total = {"sum": math.fsum(c), "mean": mean(c) if c else 0.0, "nearest": c[-1] if c else 0.0}[aggregate]
        result.append(e + total)
    return result


def verl_agent(rows, gamma=0.95, omega=1.0, penalty=0.0, mode="mean_std", eps=1e-6, step=True):
    """The public GiGPO code: statistics over step rows, the penalty off single rows, ddof 1, no floor."""
    loss = [0.0 if r.get("valid", True) else penalty for r in rows]
    score = [math.fsum(o["reward"] for o in trajectory(rows, r)) - c for r, c in zip(rows, loss, strict=True)]
    returns = [to_go(rows, r, gamma, 0.0) - c for r, c in zip(rows, loss, strict=True)]
    result = []
    for i, r in enumerate(rows):
        group = [s for s, o in zip(score, rows, strict=True) if o["group"] == r["group"]]
        m, sd = (0.0, 1.0) if len(group) == 1 else (mean(group), std(group, 1))
        total = (score[i] - m) / (sd + eps) if mode == "mean_std" else score[i] - m
        if step:
            anchor = [
                v for v, o in zip(returns, rows, strict=True) if (o["group"], o["state"]) == (r["group"], r["state"])
            ]
            m, sd = (mean(anchor), 1.0) if len(anchor) == 1 else (mean(anchor), std(anchor, 1))
            total += omega * ((returns[i] - m) / (sd + eps) if mode == "mean_std" else returns[i] - m)
        result.append(total)
    return result
