"""First-step GRPO: the outcome advantage on one turn only, later on all (the baseline of the Anchor-GRPO paper).

    A_t = A(tau) for t = 0, else 0            while k < stage1_steps (k: updates done)
    A_t = A(tau)                              from then on; A(tau) as in grpo.py

In stage 1 the other turns count neither in the loss nor in its denominator (`loss_rows`). Ablation (which step is
updated): updated=last | random; the random one lies between the first and the last, fixed by trajectory and update.
Degenerate: as grpo. A trajectory of one turn is its own first and last; one of two turns has none between them, and
its random one is either.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .columns import Bools, Floats
from .grpo import grpo
from .progress import ProgressSettings
from .registry import register
from .settings import number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class FirstStepSettings(ProgressSettings):
    """stage1_steps: updates of stage 1 (None: the whole run). updated: the turn that stage 1 updates."""

    stage1_steps: int | None = number(None)
    updated: Literal["first", "last", "random"] = "first"


def in_stage1(s: FirstStepSettings) -> bool:
    return s.stage1_steps is None or s.step < s.stage1_steps


def chosen_turn(table: StepTable, s: FirstStepSettings) -> Bools:
    """bool[n]: the one turn of each trajectory that stage 1 updates."""
    begin = table.order[table.trajectory_end - table.trajectory_length + 1]
    index = table.turn - table.turn[begin][table.trajectory]
    if s.updated == "first":
        wanted = np.zeros(table.trajectories, dtype=np.int64)
    elif s.updated == "last":
        wanted = table.trajectory_length - 1
    else:
        # by what the trajectory is, not by where its rows stand in the batch
        drawn = np.array([hash_of(label, s.step) for label in table.labels["trajectory"]], dtype=np.int64)
        length = table.trajectory_length
        wanted = np.where(length > 2, 1 + drawn % np.maximum(length - 2, 1), drawn % length)
    chosen: Bools = index == wanted[table.trajectory]
    return chosen


def hash_of(label: object, step: int) -> int:
    """63 bits that are the same in every process."""
    return int.from_bytes(hashlib.blake2b(f"{label!r} {step}".encode(), digest_size=8).digest(), "big") >> 1


def updated_rows(table: StepTable, s: FirstStepSettings) -> Bools:
    """bool[n]: the rows of the loss."""
    return chosen_turn(table, s) if in_stage1(s) else np.ones(len(table), dtype=bool)


@register("first_step_grpo", loss_rows=updated_rows)
def first_step_grpo(table: StepTable, s: FirstStepSettings) -> Floats:
    """float64[n]; 0 on the rows outside the loss."""
    return np.where(updated_rows(table, s), grpo(table, s), 0.0)
