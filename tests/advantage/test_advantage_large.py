"""A table of a million rows: tasks drawn from it get what the naive implementation gives them alone."""

import random

import advantage_naive as naive
import numpy as np
import pytest

from agentrl.advantage import StepTable, compute

TASKS, MEMBERS, CHECKED = 20_000, 8, 4
METHODS = {
    "grpo": naive.grpo,
    "gigpo": naive.gigpo,
    "ptgpo": naive.ptgpo,
    "rloo": naive.rloo,
    "planpo": naive.planpo,
    "first_step_grpo": naive.first_step,
}


def task_rows(task):
    """About fifty rows: eight walks over a few states and actions."""
    rng = random.Random(task)
    rows = []
    for member in range(MEMBERS):
        turns, success = rng.randint(1, 12), rng.random() < 0.5
        for turn in range(turns):
            rows.append(
                {"group": task, "trajectory": task * MEMBERS + member, "turn": turn,
                 "reward": 10.0 * (success and turn == turns - 1), "state": f"s{rng.randrange(5) if turn else 0}",
                 "action": rng.choice("abc"), "success": success, "response_length": rng.randint(1, 99),
                 "valid": rng.random() < 0.9}
            )  # fmt: skip
    return rows


@pytest.mark.slow  # makes a million dicts
def test_a_million_rows():
    order = np.random.default_rng(0).permutation(TASKS).tolist()
    rows = [row for task in order for row in task_rows(task)]
    assert len(rows) > 1_000_000
    random.Random(1).shuffle(rows)
    table = StepTable.from_rows(rows)
    for name, method in METHODS.items():
        values = compute(table, name)
        assert np.isfinite(values).all()
        for task in order[:CHECKED]:
            mine = [i for i, row in enumerate(rows) if row["group"] == task]
            expected = method([rows[i] for i in mine])
            np.testing.assert_allclose(values[mine], expected, rtol=1e-9, atol=1e-9)
