"""From a step's trajectories to what the update learns from: values, advantages, targets; and what is kept of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentrl.advantage import StepTable, compute_with_stats, loss_rows, value_targets
from agentrl.driver.batch import Group, state_batch, step_rows, training_batch
from agentrl.driver.run_state import Run
from agentrl.report.rollouts import Rollouts


@dataclass
class Credit:
    """advantages: float64[rows]; counted: bool[rows] or None for all; targets: float64[rows], of the critic, or None."""

    rows: list[dict[str, Any]]
    advantages: np.ndarray
    counted: np.ndarray | None
    targets: np.ndarray | None
    signal: dict[str, Any]
    settings: dict[str, Any]


async def state_values(run: Run, groups: Sequence[Group]) -> np.ndarray | None:
    """float64[rows]: the critic's value of every turn's prompt; None in a run without a critic."""
    if not run.config.has_critic:
        return None
    values = await asyncio.to_thread(run.actor.values, state_batch(groups))
    return np.concatenate(values).astype(np.float64)


def assign(groups: Sequence[Group], method: str, settings: dict[str, Any], values: np.ndarray | None) -> Credit:
    """The advantage stage: pure numpy."""
    rows = step_rows(groups, values)
    table = StepTable.from_rows(rows)
    advantages, signal = compute_with_stats(table, method, **settings)
    counted = loss_rows(table, method, **settings)
    targets = None if values is None else value_targets(table, method, **settings)
    return Credit(rows, advantages, counted, targets, signal, settings)


async def learn(run: Run, groups: Sequence[Group], credit: Credit) -> dict[str, float]:
    """Update the critic, if there is one, and, after the critic's head start, the actor. Metrics by their names."""
    metrics: dict[str, float] = {}
    if credit.targets is not None:
        critic, batch = run.config.critic, state_batch(groups, credit.targets)
        for _ in range(critic.epochs):
            update = await asyncio.to_thread(run.actor.update_critic, batch, critic.mini_batches)
        metrics |= {f"critic/{name}": value for name, value in update.items()}
        if run.step < critic.head_start:
            return metrics
    batch = training_batch(groups, credit.advantages, credit.counted)
    update = await asyncio.to_thread(run.actor.update, batch, run.config.actor.mini_batches)
    return metrics | {f"actor/{name}": value for name, value in update.items()}


def rollouts(step: int, method: str, groups: Sequence[Group], credit: Credit) -> Rollouts:
    """What `agentrl.replay` reads."""
    members = [(t.task_id, t.member) for group in groups for t in sorted(group, key=lambda t: t.member)]
    columns = {name: [row[name] for row in credit.rows] for name in credit.rows[0]}
    return Rollouts(step, method, credit.settings, columns, credit.advantages, members)
