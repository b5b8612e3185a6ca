"""Two sets of advantages over the same turns, side by side: where the credit went. Only numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.advantage import StepTable
from agentrl.advantage.columns import Floats, Ints
from agentrl.advantage.stats import NO_SIGNAL

LONGEST = 64  # turn positions that are told apart; later ones are counted together


@dataclass
class Comparison:
    """One training step: the table, the advantages before (`old`) and under the other method (`new`), and `numbers`."""

    step: int
    table: StepTable
    old: Floats
    new: Floats
    numbers: dict[str, float]


def compare(step: int, table: StepTable, old: Floats, new: Floats) -> Comparison:
    """numbers: rows, trajectories; then, each for old and new,

    signal_*         share of rows with an advantage
    size_*           mean of its absolute value over all rows
    within_*         share of the advantages' variance that lies between the turns of a trajectory; 0 where all turns of
                     a trajectory get the same, NaN where nothing gets any
    and between the two
    rank_correlation Spearman's, over the rows; NaN where one of them is the same in all rows
    sign_flips       share of the rows that have an advantage in both and change its sign; NaN where no row has
    largest_change   of one row, each side divided by its standard deviation (as it is where that is 0)
    """
    both = (np.abs(old) >= NO_SIGNAL) & (np.abs(new) >= NO_SIGNAL)
    flips = np.sign(old[both]) != np.sign(new[both])
    moved = np.abs(scaled(new) - scaled(old))
    numbers = {"rows": float(len(table)), "trajectories": float(table.trajectories)}
    for name, values in (("old", old), ("new", new)):
        silent = np.abs(values) < NO_SIGNAL
        numbers[f"signal_{name}"] = float(1 - silent.mean()) if len(values) else 0.0
        numbers[f"size_{name}"] = float(np.abs(values).mean()) if len(values) else 0.0
        numbers[f"within_{name}"] = share_within(table.trajectory, values)
    numbers["rank_correlation"] = rank_correlation(old, new)
    numbers["sign_flips"] = float(flips.mean()) if both.any() else float("nan")
    numbers["largest_change"] = float(moved.max(initial=0.0))
    return Comparison(step, table, old, new, numbers)


def scaled(values: Floats) -> Floats:
    """Divided by their standard deviation, so that methods of different size can be compared."""
    spread = float(values.std()) if len(values) else 0.0
    return values / spread if spread > NO_SIGNAL else values


def share_within(trajectory: Ints, values: Floats) -> float:
    """Of the variance of `values` [n], the share inside trajectories [n]."""
    total = float(((values - values.mean()) ** 2).sum()) if len(values) else 0.0
    if total <= NO_SIGNAL**2 * len(values):
        return float("nan")
    size = np.bincount(trajectory)
    mean = np.bincount(trajectory, weights=values) / np.maximum(size, 1)
    return float(((values - mean[trajectory]) ** 2).sum()) / total


def rank_correlation(a: Floats, b: Floats) -> float:
    """Spearman's, equal values sharing the mean of their ranks; differences below 1e-9 count as equal."""
    x, y = ranks(a), ranks(b)
    x, y = x - x.mean() if len(x) else x, y - y.mean() if len(y) else y
    size = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / size if size > 0 else float("nan")


def ranks(values: Floats) -> Floats:
    """0, 1, ... with ties at their mean."""
    order = np.argsort(values, kind="stable")
    new = np.concatenate(([True], np.diff(values[order]) > NO_SIGNAL)) if len(values) else np.zeros(0, dtype=bool)
    run = np.cumsum(new) - 1
    size = np.bincount(run)
    middle = np.cumsum(size) - (size + 1) / 2
    result = np.empty(len(values))
    result[order] = middle[run] if len(values) else 0.0
    return result


def by_turn(comparisons: list[Comparison]) -> dict[str, list[float | None]]:
    """Mean advantage by position in the trajectory, of successes and of failures, old and new; None where no row is.

    Keys: old_success, new_success, old_failure, new_failure, rows_success, rows_failure; index = turn, the last one
    holding all later turns too.
    """
    result: dict[str, list[float | None]] = {}
    for kind, wanted in (("success", True), ("failure", False)):
        count, sums = np.zeros(LONGEST), {"old": np.zeros(LONGEST), "new": np.zeros(LONGEST)}
        for c in comparisons:
            chosen = c.table.success == wanted
            turn = np.minimum(c.table.turn[chosen], LONGEST - 1)
            count += np.bincount(turn, minlength=LONGEST)
            for name, values in (("old", c.old), ("new", c.new)):
                sums[name] += np.bincount(turn, weights=values[chosen], minlength=LONGEST)
        longest = int(np.flatnonzero(count).max(initial=-1)) + 1
        for name, total in sums.items():
            result[f"{name}_{kind}"] = [
                float(t / n) if n else None for t, n in zip(total[:longest], count[:longest], strict=True)
            ]
        result[f"rows_{kind}"] = count[:longest].tolist()
    return result


def totals(comparisons: list[Comparison]) -> dict[str, float]:
    """`numbers` over all steps: means weighted by rows, NaN left out; counts as sums; the largest change of all."""
    result: dict[str, float] = {}
    rows = np.array([c.numbers["rows"] for c in comparisons])
    for name in comparisons[0].numbers:
        values = np.array([c.numbers[name] for c in comparisons])
        known = np.isfinite(values)
        if name in ("rows", "trajectories"):
            result[name] = float(values.sum())
        elif name == "largest_change":
            result[name] = float(values.max())
        else:
            result[name] = float(np.average(values[known], weights=rows[known])) if rows[known].sum() else float("nan")
    return result


def most_moved(comparisons: list[Comparison], count: int) -> list[dict[str, Any]]:
    """The turns whose scaled advantage changed most: step, row, trajectory, turn, action, state, old, new."""
    found = []
    for c in comparisons:
        change = scaled(c.new) - scaled(c.old)
        for row in np.argsort(-np.abs(change), kind="stable")[:count].tolist():
            found.append(
                {
                    "step": c.step,
                    "row": row,
                    "trajectory": int(c.table.trajectory[row]),
                    "turn": int(c.table.turn[row]),
                    "success": bool(c.table.success[row]),
                    "action": str(c.table.labels["action"][c.table.action[row]]),
                    "state": str(c.table.labels["state"][c.table.state[row]]),
                    "old": float(c.old[row]),
                    "new": float(c.new[row]),
                    "change": float(change[row]),
                }
            )
    return sorted(found, key=lambda item: -abs(item["change"]))[:count]
