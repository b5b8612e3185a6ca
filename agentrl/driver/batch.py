"""From whole groups of trajectories to the advantage stage's rows and the training batch: one row per turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agentrl.engine.training_spec import TrainingBatch
from agentrl.episode.records import Trajectory, Turn

Group = list[Trajectory]


def rows_of(groups: Sequence[Group]) -> list[tuple[int, int, int, Trajectory, Turn]]:
    """(group, trajectory, turn index, trajectory record, turn record) in a fixed order: by group, member, turn."""
    rows = []
    number = 0
    for index, group in enumerate(groups):
        for trajectory in sorted(group, key=lambda t: t.member):
            rows += [(index, number, k, trajectory, turn) for k, turn in enumerate(trajectory.turns)]
            number += 1
    return rows


def step_rows(groups: Sequence[Group], values: np.ndarray | None = None) -> list[dict[str, Any]]:
    """The rows that `StepTable.from_rows` takes. `reward` is the raw reward: the stage applies the penalty.

    values: float64[rows], the critic's, for the column `value`.
    """
    rows = [
        {
            "group": group,
            "trajectory": number,
            "turn": k,
            "reward": turn.reward,
            "state": turn.state_key,
            "action": turn.action,
            "raw_action": turn.text,
            "response_length": len(turn.response_ids),
            "valid": turn.valid,
            "success": trajectory.success,
            "score": trajectory.score,
            # of the policy that sampled, estimated from the tokens it took
            "entropy": -float(np.mean(turn.log_probs)) if len(turn.log_probs) else 0.0,
        }
        for group, number, k, trajectory, turn in rows_of(groups)
    ]
    if values is not None:
        rows = [row | {"value": float(value)} for row, value in zip(rows, values, strict=True)]
    return rows


def state_batch(groups: Sequence[Group], returns: np.ndarray | None = None) -> TrainingBatch:
    """What the critic values: every turn's prompt. Its one value stands where the response's first token is predicted,
    so the rest of the response need not be computed."""
    turns = [turn for *_, turn in rows_of(groups)]
    return TrainingBatch(
        prompt_ids=[turn.prompt_ids for turn in turns],
        response_ids=[turn.response_ids[:1] for turn in turns],
        returns=returns,
    )


def training_batch(groups: Sequence[Group], advantages: np.ndarray, counted: np.ndarray | None = None) -> TrainingBatch:
    """The engine's batch, in the order of `step_rows`; `advantages` is float64[rows].

    counted: bool[rows], the rows whose tokens are in the loss and its denominator; None for all.
    """
    turns = [turn for *_, turn in rows_of(groups)]
    return TrainingBatch(
        prompt_ids=[turn.prompt_ids for turn in turns],
        response_ids=[turn.response_ids for turn in turns],
        advantages=advantages,
        rollout_log_probs=[turn.log_probs for turn in turns],
        loss_mask=None
        if counted is None
        else [[int(counts)] * len(turn.response_ids) for counts, turn in zip(counted, turns, strict=True)],
    )
