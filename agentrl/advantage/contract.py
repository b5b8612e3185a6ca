"""What every advantage function must keep, to be run over your own:

from agentrl.advantage.contract import check_advantage
check_advantage("my_methods:first_turn", rest=0.1)
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .columns import Floats
from .registry import NEEDS, make_settings, resolve, run
from .table import StepTable

TEXTS = ("start", "søren", "東京", "page 2")


def check_advantage(name: str, *, tables: int = 60, mixes_tasks: bool = False, **settings: Any) -> None:
    """Run `name`, a registered method or package.module:function, over random tables. AssertionError tells what broke.

    one value      float64, one finite value per row, for an empty table and for groups and trajectories of one too
    pure           the table is left as it is; the same table gives the same values again, in every digit
    order          the order of the rows does not matter, nor do the names of tasks, trajectories, states and actions
    tasks apart    a task's advantages are the same alone and in the batch (not with `mixes_tasks`: empg, ppo)

    Every column that a run gives is in the tables, and what the method names in its `needs`. `settings` are its own.
    """
    made = make_settings(name, **settings)
    function = resolve(name)
    needs = NEEDS[name](made) if name in NEEDS else ()

    def of(rows: list[dict[str, Any]]) -> Floats:
        return run(StepTable.from_rows(rows), name, made)

    if not needs:  # an empty batch has no column but the required ones
        assert len(run(StepTable.from_rows([]), name, made)) == 0, f"{name} of an empty table is not empty"
    for seed in range(tables):
        rng = random.Random(seed)
        rows = random_rows(rng, needs)
        said = f"{name}, table {seed} of agentrl.advantage.contract"
        table = StepTable.from_rows(rows)
        before = {key: column.copy() for key, column in _arrays(table).items()}
        raw = np.asarray(function(table, made))
        assert raw.dtype == np.float64, f"{said}: returned {raw.dtype}, not float64"
        values = run(table, name, made)
        for key, column in _arrays(table).items():
            assert np.array_equal(column, before[key]), f"{said}: it changed the table's column {key!r}"
        assert np.array_equal(run(table, name, made), values), f"{said}: a second call gave other values"
        order = list(range(len(rows)))
        rng.shuffle(order)
        _close(of([rows[i] for i in order]), values[order], f"{said}: the order of the rows matters")
        renamed = [
            row | {key: f"{row[key]}'" for key in ("group", "trajectory", "state", "action", "raw_action", "plan")}
            for row in rows
        ]
        _close(of(renamed), values, f"{said}: the names of tasks, trajectories, states or actions matter")
        if not mixes_tasks:
            for group in {row["group"] for row in rows}:
                mine = [i for i, row in enumerate(rows) if row["group"] == group]
                _close(of([rows[i] for i in mine]), values[mine], f"{said}: task {group} depends on the others")


def random_rows(rng: random.Random, needs: tuple[str, ...] = ()) -> list[dict[str, Any]]:
    """1 to 4 tasks of 1 to 5 trajectories of 1 to 6 turns, with few states and actions; `needs`: more number columns."""
    reward = rng.choice([
        lambda last: 10.0 * (last and rng.random() < 0.5), lambda last: rng.choice([0.0, 0.5, -0.1]),
        lambda last: 0.7, lambda last: 1e6 * rng.random(), lambda last: -rng.random(),
    ])  # fmt: skip
    rows = []
    for group in range(rng.randint(1, 4)):
        for member in range(rng.randint(1, 5)):
            turns, success, plan = rng.randint(1, 6), rng.random() < 0.5, rng.choice("pq")
            of_trajectory = {key: rng.random() for key in needs}
            for turn in range(turns):
                action = rng.choice(["search[é]", "click[a]", "click[b]"])
                rows.append(
                    {
                        "group": f"task/{group}",
                        "trajectory": f"{group}-{member}",
                        "turn": turn,
                        "reward": reward(turn == turns - 1),
                        "state": TEXTS[0] if turn == 0 else rng.choice(TEXTS),
                        "action": action,
                        "raw_action": f"<think>{rng.randint(0, 3)}</think>{action}",
                        "response_length": rng.randint(1, 400),
                        "valid": rng.random() < 0.8,
                        "success": success,
                        "score": float(success),
                        "entropy": rng.random(),
                        "plan": plan,
                    }
                    | {key: value for key, value in of_trajectory.items() if key not in _GIVEN}
                )
    return rows


_GIVEN = ("response_length", "valid", "success", "score", "entropy", "plan", "raw_action")


def _arrays(table: StepTable) -> dict[str, np.ndarray]:
    return {key: value for key, value in (vars(table) | table.extra).items() if isinstance(value, np.ndarray)}


def _close(got: Floats, expected: Floats, said: str) -> None:
    size = max(1.0, float(np.abs(expected).max(initial=0.0)))
    worst = float(np.abs(got - expected).max(initial=0.0))
    assert worst <= 1e-6 * size, f"{said} (a value differs by {worst:g})"
