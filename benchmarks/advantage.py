"""Time and memory of the advantage stage on one core.

    python benchmarks/advantage.py                                          # 6,400 rows: a training step of the papers
    python benchmarks/advantage.py --rows 10000 100000 1000000              # how both grow

The batch is made to look like ALFWorld's or WebShop's: 16 groups x 8 trajectories x 50 turns (more groups for more
rows), 30 states per task that the trajectories share, a quarter of the rows in a state of their own, 12 actions, loops,
10 % invalid actions, reward 10 at the end of a third of the trajectories. Beside each method's best and median time
stands its ratio to a numpy floor that only sorts the rows by state and sums their rewards (`floor`), and the most memory
that the call itself holds at once, in bytes per row. `ptgpo worst` is a batch in which every trajectory repeats one
action in one state, so that no tree ever narrows. The targets are for the best time; a shared machine has slow moments.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from agentrl.advantage import METHODS, StepTable, compute, compute_with_stats

TARGETS_MS = {"grpo": 1.0, "gigpo": 3.0, "ptgpo": 15.0}  # for 6,400 rows
LARGEST, LARGEST_S = 1_000_000, 3.0  # every method, from_rows left out
SETTINGS: dict[str, dict[str, Any]] = {"terms": {"terms": {"episode": 1.0, "state_group": 0.5, "prefix_tree": 0.5}}}
TURNS, MEMBERS = 50, 8


def columns(rows: int, seed: int = 0, stuck: bool = False) -> dict[str, Any]:
    """Columns of a batch of about ``rows`` turns: a random walk over shared states with a preferred action in each."""
    rng = np.random.default_rng(seed)
    groups = max(1, round(rows / (TURNS * MEMBERS)))
    trajectories = groups * MEMBERS
    state = np.zeros((trajectories, TURNS), dtype=np.int64)
    action = np.zeros((trajectories, TURNS), dtype=np.int64)
    for turn in range(TURNS):
        likely = rng.random(trajectories) < 0.6
        action[:, turn] = np.where(likely, state[:, turn] % 7, rng.integers(0, 12, trajectories))
        if turn + 1 < TURNS:  # the same action in the same state leads to the same state; 30 states per task
            state[:, turn + 1] = (state[:, turn] * 5 + action[:, turn] * 3 + 1) % 30
    if stuck:
        state[:], action[:] = 0, 0
    else:  # states that no other turn shows
        rare = rng.random(state.shape) < 0.25
        state[rare] = 30 + np.arange(np.count_nonzero(rare))
    reward = np.zeros((trajectories, TURNS))
    reward[rng.random(trajectories) < 1 / 3, -1] = 10.0
    trajectory = np.repeat(np.arange(trajectories), TURNS)
    group = trajectory // MEMBERS
    shuffle = rng.permutation(trajectories * TURNS)
    flat = state.ravel()
    return {
        "group": [f"train/{g:06d}" for g in group[shuffle].tolist()],
        "trajectory": [f"t{t}" for t in trajectory[shuffle].tolist()],
        "turn": np.tile(np.arange(TURNS), trajectories)[shuffle].tolist(),
        "reward": reward.ravel()[shuffle].tolist(),
        "state": [f"You are in room {s}. You see a door." for s in flat[shuffle].tolist()],
        "action": [f"go to room {a}" for a in action.ravel()[shuffle].tolist()],
        "valid": [True] * len(flat) if stuck else (rng.random(trajectories * TURNS) > 0.1).tolist(),
        "success": np.repeat(reward[:, -1] > 0, TURNS)[shuffle].tolist(),
        "response_length": rng.integers(20, 512, len(flat)).tolist(),
        "plan": [f"plan {member % 3}" for member in (trajectory % MEMBERS)[shuffle].tolist()],
        "entropy": rng.random(len(flat)).tolist(),
        "value": rng.normal(3.0, 1.0, len(flat)).tolist(),
        "rubric": np.repeat(rng.random(trajectories), TURNS)[shuffle].tolist(),
    }


def timed(function: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Best and median milliseconds; one call to warm up."""
    function()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        seconds.append(time.perf_counter() - start)
    return min(seconds) * 1e3, float(np.median(seconds)) * 1e3


def peak_bytes(function: Callable[[], object]) -> int:
    """The most memory that numpy and Python held at once inside one call, beyond what they had before."""
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    function()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak - before


def floor(table: StepTable) -> Callable[[], object]:
    """What any state-grouping method must do at least: sort the rows by state and sum each group's rewards."""

    def work() -> object:
        order = np.argsort(table.state_group, kind="stable")
        sorted_states = table.state_group[order]
        first = np.flatnonzero(np.concatenate(([True], sorted_states[1:] != sorted_states[:-1])))
        return np.add.reduceat(table.reward[order], first)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[6400])
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    for rows in arguments.rows:
        data = columns(rows)
        dicts = [dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)]
        repeats = max(3, min(arguments.repeats, 2_000_000 // len(dicts)))
        table = StepTable.from_rows(dicts)
        print(
            f"{len(table):,} rows, {table.trajectories:,} trajectories, {table.groups:,} groups, "
            f"{table.state_groups:,} state groups"
        )
        lowest, _ = timed(floor(table), repeats)
        print(f"  {'floor':<16}{lowest:9.3f} ms")
        best, median = timed(lambda: StepTable.from_rows(dicts), max(3, repeats // 10))
        print(f"  {'from_rows':<16}{best:9.3f} ms   median {median:9.3f}")
        for name in sorted(METHODS):
            options = {"invalid_action_penalty": 0.1, **SETTINGS.get(name, {})}
            best, median = timed(lambda: compute(table, name, **options), repeats)
            peak = peak_bytes(lambda: compute(table, name, **options)) / len(table)
            limit = TARGETS_MS.get(name) if rows == 6400 else 1e3 * LARGEST_S if rows == LARGEST else None
            verdict = "" if limit is None else f"{'ok' if best <= limit else 'TOO SLOW'} (<= {limit:g} ms)"
            print(
                f"  {name:<16}{best:9.3f} ms   median {median:9.3f}   {best / lowest:6.1f} x floor   {peak:5.0f} B/row   "
                f"{verdict}"
            )
        stuck = StepTable.from_columns(columns(rows, stuck=True))
        best, median = timed(lambda: compute(stuck, "ptgpo"), max(3, repeats // 5))
        print(f"  {'ptgpo worst':<16}{best:9.3f} ms   median {median:9.3f}   {best / lowest:6.1f} x floor")
        seen = compute_with_stats(table, "ptgpo")[1]
        print(f"  coverage {seen['state_group_coverage']:.2f}, trees by depth {seen['tree_depth_histogram']}")


if __name__ == "__main__":
    main()
