"""Tables for the tests: the given vectors as rows, and random batches that are rich in ties, repeats and odd shapes."""

import json
from pathlib import Path

VECTORS = json.loads((Path(__file__).parent.parent / "cases" / "advantage_vectors.json").read_text(encoding="utf-8"))

REWARDS = {
    "sparse": lambda rng, last: 10.0 * (last and rng.random() < 0.5),
    "dense": lambda rng, last: rng.choice([0.0, 0.5, 1.0, -0.1]),
    "negative": lambda rng, last: -rng.random(),
    "constant": lambda rng, last: 0.7,
    "nothing": lambda rng, last: 0.0,
    "huge": lambda rng, last: 1e6 * rng.choice([0, 1, 2]),
    "small": lambda rng, last: 1e-2 * rng.random(),
}


def random_rows(rng, shuffle=True):
    """1-4 tasks, 1-6 trajectories each, 1-7 turns, few states and actions, so that groups and prefixes are shared."""
    kind = rng.choice(sorted(REWARDS))
    states = rng.choice([["s"], ["s0", "s1"], ["søren", "東京", "s2", "s3"], [f"s{i}" for i in range(12)]])
    actions = rng.choice([["a"], ["a", "b"], ["a", "b", "c", "ü"]])
    longest = rng.choice([1, 3, 7])
    rows = []
    for group in range(rng.randint(1, 4)):
        for member in range(rng.randint(1, 6)):
            turns = rng.randint(1, longest)
            success, plan = rng.random() < 0.5, rng.choice("pqr")
            rubric = rng.choice([-1.0, 0.0, 0.5, rng.random()])
            for turn in range(turns):
                rows.append({
                    "group": f"task/{group}",
                    "trajectory": f"{group}-{member}",
                    "turn": turn,
                    "reward": REWARDS[kind](rng, turn == turns - 1),
                    "state": states[0] if turn == 0 else rng.choice(states),
                    "action": rng.choice(actions),
                    "valid": rng.random() < 0.8,
                    "success": success,
                    "response_length": rng.choice([1, 7, rng.randint(1, 400)]),
                    "plan": plan,
                    "rubric": rubric,
                    "plan_score": 1 - rubric if rubric >= 0 else rubric,
                    "entropy": rng.choice([0.0, 0.5, 3 * rng.random()]),
                    "value": rng.choice([0.0, 1.0, rng.gauss(0, 3)]),
                })  # fmt: skip
    if shuffle:
        rng.shuffle(rows)
    return rows
