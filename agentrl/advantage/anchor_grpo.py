"""Anchor-GRPO: first the plan, by a judge's rubric; then the whole trajectory, by its outcome.

    stage 1   R = sum of the six rubric scores (0..5) / 30       A on the first turn only, and so is the loss
    stage 2   R = 1 for the right answer, else 0                 A on every turn
    A(tau_i) = (R_i - mean_j R_j) / (std_j R_j + eps)            j over the trajectories of the question

Stage 1 lasts stage1_steps updates; `stage` fixes one of the two. The rubric's share (0..1) comes as the column
`rubric` of the first turn (reward=naive: one overall mark of the judge, 0..1, as the column `plan_score`). A plan that
the judge could not score has -1 there: it leaves its group's statistics and gets advantage 0, never a score of 0.
Clip range (actor.clip_low 0.2, actor.clip_high 0.28) and sampling (plans only, or whole trajectories) are the recipe's.
Defaults: eps 1e-6, ddof 1. Degenerate: a group of one scored plan, or one without spread, gets exactly 0.
Ablations: stage=1 (stage 1 only), updated=last | random (first_step_grpo.py), reward=naive, reward=sparse (the outcome
in stage 1). The paper names a Naive Plan Reward and does not define it; a single mark for the whole plan is our reading.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .columns import Bools, Floats
from .first_step_grpo import FirstStepSettings, chosen_turn
from .normalise import group_stats
from .registry import register
from .returns import episode_sum
from .settings import number
from .table import StepTable

UNSCORED = -1.0
COLUMN = {"rubric": "rubric", "naive": "plan_score"}  # where each reward of stage 1 comes from


@dataclass(frozen=True, kw_only=True)
class AnchorSettings(FirstStepSettings):
    """stage1_steps: updates of stage 1 (None: half of the run). stage: None for by stage1_steps, or 1 or 2."""

    stage: int | None = number(None, 1, 2)
    reward: Literal["rubric", "naive", "sparse"] = "rubric"


def in_stage1(s: AnchorSettings) -> bool:
    if s.stage is not None:
        return s.stage == 1
    return s.step < (s.total_steps // 2 if s.stage1_steps is None else s.stage1_steps)


def anchor_rows(table: StepTable, s: AnchorSettings) -> Bools:
    """bool[n]: the rows of the loss; in stage 1 without the plans that were not scored."""
    if not in_stage1(s):
        return np.ones(len(table), dtype=bool)
    chosen = chosen_turn(table, s)
    return chosen & (_judged(table, s) >= 0)[table.trajectory] if s.reward in COLUMN else chosen


def _judged(table: StepTable, s: AnchorSettings) -> Floats:
    """[trajectories] the judge's share for the first turn."""
    column = COLUMN[s.reward]
    table.require(column, "anchor_grpo")
    share = table.extra[column]
    first = share[table.order[table.trajectory_end - table.trajectory_length + 1]]
    wrong = np.flatnonzero((first > 1) | ((first < 0) & (first != UNSCORED)))
    if len(wrong):
        raise ValueError(
            f"column {column!r} is {first[wrong[0]]:g} for trajectory {table.labels['trajectory'][wrong[0]]!r}; it must "
            f"be the scores over their maximum, 0..1, or {UNSCORED:g} where the judge gave none."
        )
    return first


def needs(s: AnchorSettings) -> tuple[str, ...]:
    return () if s.stage == 2 or s.reward not in COLUMN else (COLUMN[s.reward],)


@register("anchor_grpo", loss_rows=anchor_rows, needs=needs)
def anchor_grpo(table: StepTable, s: AnchorSettings) -> Floats:
    """float64[n]; 0 on the rows outside the loss. Stage 1 needs the judge's column, stage 2 the outcome in reward."""
    if in_stage1(s) and s.reward in COLUMN:
        outcome = _judged(table, s)
        scored = outcome != UNSCORED
    else:
        outcome, scored = episode_sum(table, table.reward), np.ones(table.trajectories, dtype=bool)
    stats = group_stats(outcome[scored], table.trajectory_group[scored], table.groups, s)
    advantage = np.where(scored, stats.apply(outcome, table.trajectory_group), 0.0)[table.trajectory]
    return np.where(anchor_rows(table, s), advantage, 0.0)
