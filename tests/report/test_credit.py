"""The comparison of two sets of advantages, against plain loops."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from agentrl.advantage import StepTable, compute
from agentrl.report.credit import by_turn, compare, most_moved, rank_correlation, ranks, share_within, totals


def table_of(trajectories: int = 6, turns: int = 4) -> StepTable:
    rng = random.Random(0)
    rows = [
        {"group": t // 3, "trajectory": t, "turn": k, "reward": 10.0 * (t % 2 == 0 and k == turns - 1),
         "state": f"s{rng.randrange(3)}", "action": rng.choice("ab"), "success": t % 2 == 0}
        for t in range(trajectories) for k in range(turns)
    ]  # fmt: skip
    return StepTable.from_rows(rows)


def plain_ranks(values: list[float]) -> list[float]:
    return [sum(o < v for o in values) + (sum(o == v for o in values) - 1) / 2 for v in values]


@pytest.mark.parametrize("seed", range(20))
def test_ranks_and_their_correlation(seed: int) -> None:
    rng = random.Random(seed)
    a = [rng.choice([0.0, 1.0, 2.5, rng.random()]) for _ in range(rng.randint(2, 30))]
    b = [rng.choice([0.0, -1.0, 2.5, rng.random()]) for _ in a]
    assert ranks(np.array(a)).tolist() == plain_ranks(a)
    x, y = np.array(plain_ranks(a)), np.array(plain_ranks(b))
    if x.std() and y.std():
        assert rank_correlation(np.array(a), np.array(b)) == pytest.approx(np.corrcoef(x, y)[0, 1])
        assert rank_correlation(np.array(a), 3 * np.array(a) + 1) == pytest.approx(1)
        assert rank_correlation(np.array(a), -np.array(a)) == pytest.approx(-1)


def test_a_constant_has_no_rank_correlation() -> None:
    assert math.isnan(rank_correlation(np.zeros(5), np.arange(5.0)))
    assert math.isnan(rank_correlation(np.zeros(0), np.zeros(0)))


def test_share_within_trajectories() -> None:
    table = table_of()
    assert share_within(table.trajectory, compute(table, "grpo")) == pytest.approx(0, abs=1e-12)
    centred = np.tile([-1.0, 1.0, -1.0, 1.0], 6)
    assert share_within(table.trajectory, centred) == pytest.approx(1)
    assert share_within(table.trajectory, centred + 10.0 * table.trajectory) == pytest.approx(
        np.var(centred) / np.var(centred + 10.0 * table.trajectory)
    )
    assert math.isnan(share_within(table.trajectory, np.zeros(len(table))))


def test_numbers_of_a_comparison() -> None:
    table = table_of(2, 2)
    old, new = np.array([1.0, 1.0, -1.0, 0.0]), np.array([2.0, -2.0, -1.0, 3.0])
    numbers = compare(7, table, old, new).numbers
    assert numbers["rows"] == 4 and numbers["trajectories"] == 2
    assert numbers["signal_old"] == 0.75 and numbers["signal_new"] == 1
    assert numbers["size_old"] == 0.75 and numbers["size_new"] == 2
    assert numbers["sign_flips"] == pytest.approx(1 / 3)
    silent = compare(7, table, old, np.zeros(4)).numbers
    assert silent["signal_new"] == 0 and math.isnan(silent["sign_flips"]) and math.isnan(silent["rank_correlation"])


def test_equal_methods_differ_in_nothing() -> None:
    table = table_of()
    found = compare(1, table, compute(table, "ptgpo"), compute(table, "ptgpo")).numbers
    assert found["rank_correlation"] == pytest.approx(1) and found["sign_flips"] == found["largest_change"] == 0


def test_credit_along_the_trajectory_and_the_turns_that_moved_most() -> None:
    table = table_of()
    old, new = compute(table, "grpo"), compute(table, "ptgpo")
    means = by_turn([compare(1, table, old, new), compare(2, table, old, new)])
    for kind, wanted in (("success", True), ("failure", False)):
        for turn in range(4):
            chosen = (table.success == wanted) & (table.turn == turn)
            assert means[f"new_{kind}"][turn] == pytest.approx(new[chosen].mean())
            assert means[f"rows_{kind}"][turn] == 2 * chosen.sum()
    moved = most_moved([compare(1, table, old, new)], 3)
    change = np.abs(new / new.std() - old / old.std())
    assert [item["row"] for item in moved] == np.argsort(-change, kind="stable")[:3].tolist()
    assert moved[0]["new"] == new[moved[0]["row"]] and moved[0]["action"] in ("a", "b")


def test_totals_weigh_by_rows_and_leave_out_what_is_unknown() -> None:
    small, large = table_of(2, 1), table_of(6, 4)
    quiet = compare(1, small, np.ones(2), np.zeros(2))
    loud = compare(2, large, np.ones(24), np.full(24, -1.0))
    whole = totals([quiet, loud])
    assert whole["rows"] == 26 and whole["signal_new"] == pytest.approx(24 / 26)
    assert whole["sign_flips"] == 1  # the quiet step has none to count
