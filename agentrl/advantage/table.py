"""StepTable: what an advantage sees. One row per turn, numpy columns, in no promised order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import columns
from .columns import Bools, Floats, Ints, shown

REQUIRED = ("group", "trajectory", "turn", "reward", "state", "action")
OPTIONAL: dict[str, Any] = {
    "response_length": 1,
    "valid": True,
    "success": False,
    "score": 0.0,
    "stage": "",
    "plan": "",
    "raw_action": None,  # the whole text behind the action; default: the action itself
}
_INTERNED = ("group", "trajectory", "state", "action", "stage", "plan", "raw_action")


@dataclass(frozen=True, eq=False)
class StepTable:
    """n rows, one per turn. Make one with :meth:`from_rows` or :meth:`from_columns`, which check every column.

    Text is interned: codes 0, 1, ... in order of first appearance in this batch; ``labels[column][code]`` is the
    text again. Columns (all of shape [n]):

    ===============  =======  ============================================================================
    group            int64    the task the trajectories compete on; trajectories of one task form a group
    trajectory       int64    unique in the whole batch, each in exactly one group
    turn             int64    0, 1, ... without a gap in every trajectory (or 1, 2, ... in all of them)
    reward           float64  raw environment reward of the turn, without any penalty
    state            int64    ``state_key``: the full state that the observation shows, before the action
    action           int64    the parsed action
    response_length  int64    response tokens, end of sequence included (1 unless given)
    valid            bool     whether the response held a legal action (True unless given)
    success          bool     whether the trajectory reached its goal (False unless given)
    score            float64  graded outcome of the trajectory (0 unless given)
    stage, plan      int64    free labels of some methods ("" unless given)
    raw_action       int64    the whole response text (the action unless given)
    state_group      int64    code of the pair (group, state): state groups never cross tasks
    ===============  =======  ============================================================================

    Any further key of the rows lies in ``extra``: float64 if numeric, interned codes if not. For walking along
    trajectories, ``order`` lists the rows by (trajectory, turn), and ``position_*`` arrays follow that order.
    """

    group: Ints
    trajectory: Ints
    turn: Ints
    reward: Floats
    state: Ints
    action: Ints
    response_length: Ints
    valid: Bools
    success: Bools
    score: Floats
    stage: Ints
    plan: Ints
    raw_action: Ints
    state_group: Ints
    state_group_parts: tuple[Ints, Ints]  # [state groups] group and state behind each state_group code
    extra: dict[str, NDArray[Any]]
    labels: dict[str, list[Hashable]]
    given: frozenset[str]  # the columns that the rows really had
    trajectory_group: Ints  # [trajectories] group of each trajectory
    trajectory_length: Ints  # [trajectories] turns of each trajectory
    trajectory_end: Ints  # [trajectories] position, in ``order``, of the last turn
    order: Ints  # [n] rows sorted by (trajectory, turn)
    position_left: Ints  # [n] turns from this position to the end of its trajectory, itself included
    _backward: tuple[Ints, Ints] = field(repr=False)  # see discounted_sum

    def __len__(self) -> int:
        return len(self.reward)

    @property
    def groups(self) -> int:
        """Number of task groups."""
        return len(self.labels["group"])

    @property
    def trajectories(self) -> int:
        """Number of trajectories."""
        return len(self.trajectory_group)

    @property
    def state_groups(self) -> int:
        """Number of distinct (group, state) pairs."""
        return len(self.state_group_parts[0])

    def require(self, column: str, method: str) -> None:
        """ValueError unless the rows really had ``column`` (and not only its default)."""
        if column not in self.given:
            raise ValueError(f"advantage {method!r} needs the column {column!r}; add it to every row.")

    @classmethod
    def from_rows(cls, rows: Sequence[Mapping[str, Any]]) -> StepTable:
        """Rows as dicts with at least group, trajectory, turn, reward, state, action; see the class for the rest.

        Raises ValueError, naming rows and column, for a missing column or value, a reward that is NaN or infinite,
        the same (trajectory, turn) twice, a gap in the turns, or a trajectory in two groups.
        """
        rows = list(rows)
        names = list(dict.fromkeys([*REQUIRED, *(rows[0] if rows else ())]))
        if set(map(len, rows)) != {len(names)}:  # only then look which rows have more; those that have less show below
            names = list(dict.fromkeys([*names, *(key for row in rows for key in row)]))
        data: dict[str, list[Any]] = {}
        for name in names:
            try:
                data[name] = [row[name] for row in rows]
            except KeyError:
                lacking = [i for i, row in enumerate(rows) if name not in row]
                advice = "add it to" if name in REQUIRED else "give it in every row or in none;"
                advice += " those rows." if name in REQUIRED else " those rows lack it."
                raise ValueError(f"column {name!r} is missing in {shown(lacking)}; {advice}") from None
        return cls.from_columns(data)

    @classmethod
    def from_columns(cls, data: Mapping[str, Sequence[Any] | NDArray[Any]]) -> StepTable:
        """The same from columns of equal length n: lists or numpy arrays."""
        for name in REQUIRED:
            if name not in data:
                raise ValueError(f"column {name!r} is missing; an advantage needs {', '.join(REQUIRED)}.")
        n = len(data["reward"])
        for name, column in data.items():
            if len(column) != n:
                raise ValueError(
                    f"column {name!r} has {len(column)} rows and 'reward' has {n}; give every column one "
                    "value per turn."
                )
        values: dict[str, Sequence[Any] | NDArray[Any]] = {name: [default] * n for name, default in OPTIONAL.items()}
        values.update(data)
        if "raw_action" not in data:
            values["raw_action"] = data["action"]
        labels: dict[str, list[Hashable]] = {}
        read: dict[str, Any] = {}
        for name in _INTERNED:
            column = values.pop(name)
            if name in data or name == "raw_action" or not n:
                read[name], labels[name] = columns.codes(name, column)
            else:
                read[name], labels[name] = np.zeros(n, dtype=np.int64), [column[0]]
        read["turn"] = columns.integers("turn", values.pop("turn"))
        read["response_length"] = columns.integers("response_length", values.pop("response_length"))
        read["reward"] = columns.numbers("reward", values.pop("reward"))
        read["score"] = columns.numbers("score", values.pop("score"))
        read["valid"] = columns.flags("valid", values.pop("valid"))
        read["success"] = columns.flags("success", values.pop("success"))
        extra: dict[str, NDArray[Any]] = {}
        for name, column in values.items():
            if n and np.asarray(column[0]).dtype.kind in "biuf":
                extra[name] = columns.numbers(name, column)
            else:
                extra[name], labels[name] = columns.codes(name, column)
        width = max(len(labels["state"]), 1)
        pairs, read["state_group"] = np.unique(read["group"] * width + read["state"], return_inverse=True)
        read["state_group_parts"] = (pairs // width, pairs % width)
        return cls(**read, **_walk(read, labels), extra=extra, labels=labels, given=frozenset(data))


def _walk(read: Mapping[str, Any], labels: Mapping[str, list[Hashable]]) -> dict[str, Any]:
    """Checks trajectories and lays out the indices along them."""
    trajectory, turn, group = read["trajectory"], read["turn"], read["group"]
    n = len(turn)
    order = np.lexsort((turn, trajectory))
    by_trajectory, by_turn, by_group = trajectory[order], turn[order], group[order]
    same = by_trajectory[1:] == by_trajectory[:-1]

    def name(position: int) -> str:
        return repr(labels["trajectory"][by_trajectory[position]])

    def rows(position: int) -> str:
        return shown(sorted((int(order[position]), int(order[position + 1]))))

    crossed = np.flatnonzero(same & (by_group[1:] != by_group[:-1]))
    if len(crossed):
        at = int(crossed[0])
        one, other = (labels["group"][by_group[i]] for i in (at, at + 1))
        raise ValueError(
            f"column 'group' puts trajectory {name(at)} in the groups {one!r} and {other!r} ({rows(at)}); "
            "a trajectory belongs to one group, so make its id unique in the batch."
        )
    step = np.diff(by_turn)
    twice = np.flatnonzero(same & (step == 0))
    if len(twice):
        at = int(twice[0])
        raise ValueError(
            f"column 'turn' has turn {by_turn[at]} of trajectory {name(at)} twice ({rows(at)}); "
            "each (trajectory, turn) is one row."
        )
    gap = np.flatnonzero(same & (step > 1))
    if len(gap):
        at = int(gap[0])
        raise ValueError(
            f"column 'turn' jumps from {by_turn[at]} to {by_turn[at + 1]} in trajectory {name(at)} "
            f"({rows(at)}); give every turn, or drop the whole trajectory."
        )
    begin = np.flatnonzero(np.concatenate(([True], ~same))) if n else np.zeros(0, dtype=np.int64)
    base = min(int(by_turn[begin].min()), 1) if n else 0
    late = begin[by_turn[begin] != base]
    if len(late):
        at = int(late[0])
        raise ValueError(
            f"column 'turn' begins with {by_turn[at]} in trajectory {name(at)} (row {order[at]}) where "
            f"{base} is expected; give every turn, or drop the whole trajectory."
        )
    length = np.diff(np.append(begin, n))
    end = begin + length - 1
    left = np.repeat(end, length) - np.arange(n) + 1
    # Rows by turns left, longest trajectories first: what discounted_sum walks, one slice per turn.
    longest = np.empty(len(length), dtype=np.int64)
    longest[np.argsort(-length, kind="stable")] = np.arange(len(length))
    backward = order[np.lexsort((longest[by_trajectory], left))]
    alive = np.bincount(left, minlength=1)[1:] if n else np.zeros(0, dtype=np.int64)
    return {
        "trajectory_group": by_group[begin],
        "trajectory_length": length,
        "trajectory_end": end,
        "order": order,
        "position_left": left,
        "_backward": (backward, alive),
    }
