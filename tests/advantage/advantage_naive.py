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


def rloo(rows, penalty=0.0, floor=1e-5):
    def value(t):
        return math.fsum(punished(r, penalty) for r in rows if r["trajectory"] == t)

    result = []
    for r in rows:
        members = task_trajectories(rows, r["group"])
        others = [value(t) for t in members if t != r["trajectory"]]
        spread = std([value(t) for t in members], 1)
        result.append(value(r["trajectory"]) - mean(others) if others and spread > 0 and spread >= floor else 0.0)
    return result


def reached(rows, t):
    return any(r["success"] for r in rows if r["trajectory"] == t)


def planpo(rows, alpha=0.1, penalty=0.0, per_turn=False, everyone=False, reward=10.0, **norm):
    a_e = episode(
        rows,
        lambda own: (
            (reward / len(own) if any(r["success"] for r in own) else 0.0)
            - penalty * sum(not r.get("valid", True) for r in own)
        ),
        **norm,
    )
    result = []
    for r, e in zip(rows, a_e, strict=True):
        fellows = [
            o
            for o in rows
            if o["group"] == r["group"]
            and (not per_turn or o["turn"] == r["turn"])
            and (everyone or reached(rows, o["trajectory"]))
        ]
        scores = [reward / o["response_length"] if reached(rows, o["trajectory"]) else 0.0 for o in fellows]
        mine = reward / r["response_length"] if reached(rows, r["trajectory"]) else 0.0
        a_s = normed(mine, scores, **norm) if everyone or reached(rows, r["trajectory"]) else 0.0
        result.append(e + alpha * a_s)
    return result


def gae(rows, gamma=1.0, lam=1.0, penalty=0.0, local=False, shaping="none", alpha=0.1, reward=10.0):
    """Eq. 16 of GAE as it stands: the sum of discounted one-step errors, with V = 0 after the last turn."""
    result = []
    for row in rows:
        own = trajectory(rows, row)
        place = [r["turn"] for r in own].index(row["turn"])

        def earned(r, own=own):
            if shaping == "none":
                value = r["reward"]
            elif shaping == "success" and not reached(rows, r["trajectory"]):
                value = 0.0
            else:
                value = alpha * reward / r["response_length"] + (reward / len(own) if r is own[-1] else 0.0)
            return value - (0.0 if local or r.get("valid", True) else penalty)

        total = 0.0
        for ahead, r in enumerate(own[place:]):
            after = own[place + ahead + 1]["value"] if place + ahead + 1 < len(own) else 0.0
            total += (gamma * lam) ** ahead * (earned(r) + gamma * after - r["value"])
        result.append(total - (penalty if local and not row.get("valid", True) else 0.0))
    return result


def first_step(rows, penalty=0.0, last=False, **norm):
    whole = grpo(rows, penalty, **norm)
    result = []
    for r, a in zip(rows, whole, strict=True):
        own = [o["turn"] for o in rows if o["trajectory"] == r["trajectory"]]
        result.append(a if r["turn"] == (max(own) if last else min(own)) else 0.0)
    return result


def anchor_stage1(rows, column="rubric", **norm):
    def share(t):
        return min((r for r in rows if r["trajectory"] == t), key=lambda r: r["turn"])[column]

    result = []
    for r in rows:
        scored = [share(t) for t in task_trajectories(rows, r["group"]) if share(t) >= 0]
        first = min(o["turn"] for o in rows if o["trajectory"] == r["trajectory"])
        counts = r["turn"] == first and share(r["trajectory"]) >= 0
        result.append(normed(share(r["trajectory"]), scored, **norm) if counts else 0.0)
    return result


def pta(rows, alpha=0.1, beta=1.0, temperature=1.0, structure=0.2, raw=False, longest=None):
    solutions = {r["trajectory"]: [o for o in rows if o["trajectory"] == r["trajectory"]] for r in rows}
    right = {t: float(any(o["success"] for o in own)) for t, own in solutions.items()}
    size = {t: sum(o["response_length"] for o in own) for t, own in solutions.items()}
    home = {t: (own[0]["group"], own[0]["plan"]) for t, own in solutions.items()}
    accuracy = {p: mean([right[t] for t in solutions if home[t] == p]) for p in set(home.values())}
    total = {}
    for t, own in solutions.items():
        question = home[t][0]
        plans = [p for p in accuracy if p[0] == question]
        worth = accuracy[home[t]]
        if not raw:
            worth = math.exp(worth / temperature) / math.fsum(math.exp(accuracy[p] / temperature) for p in plans)
        correct = [size[o] for o in solutions if home[o][0] == question and right[o]]
        limit = longest or max(size[o] for o in solutions if home[o][0] == question)
        near = 0.0
        if correct:
            shortest = min(correct)
            near = alpha * (math.exp(-abs(size[t] - shortest) / (limit - shortest)) if limit > shortest else 1.0)
        formed = all(o.get("valid", True) for o in own)
        total[t] = worth + beta * right[t] + (structure if formed else 0.0) + near
    return [
        normed(total[r["trajectory"]], [total[t] for t in task_trajectories(rows, r["group"])], ddof=0, eps=0.0)
        for r in rows
    ]


def empg(rows, k=1.0, k_future=1.0, zeta=0.1, penalty=0.0, centre=True):
    low, high = min(r["entropy"] for r in rows), max(r["entropy"] for r in rows)
    scaled = {id(r): (r["entropy"] - low) / (high - low + 1e-8) for r in rows}
    average = mean([math.exp(-k * h) for h in scaled.values()])
    result = []
    for r, a in zip(rows, grpo(rows, penalty), strict=True):
        later = [o for o in trajectory(rows, r) if o["turn"] > r["turn"]]
        bonus = math.exp(-k_future * scaled[id(later[0])]) if later else 0.0
        result.append(a * math.exp(-k * scaled[id(r)]) / average + zeta * bonus)
    middle = mean(result) if centre else 0.0
    return [x - middle for x in result]


def dapo(rows, limit, buffer, factor, penalty=0.0, **norm):
    def soft(length):
        if length <= limit - buffer:
            return 0.0
        return (limit - buffer - length) / buffer if length <= limit else -1.0

    shaped = [r | {"reward": r["reward"] + factor * soft(r["response_length"])} for r in rows]
    return grpo(shaped, penalty, **norm)
