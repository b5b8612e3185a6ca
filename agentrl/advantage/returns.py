"""Rewards with the penalty, discounted returns, episode returns."""

from __future__ import annotations

import numpy as np

from .columns import Floats
from .settings import Settings
from .table import StepTable


def penalty(table: StepTable, s: Settings) -> Floats:
    """[n] what each row loses for an invalid action: ``s.invalid_action_penalty`` where valid is False, else 0."""
    return np.where(table.valid, 0.0, s.invalid_action_penalty)


def discounted_sum(table: StepTable, reward: Floats, gamma: float) -> Floats:
    """[n] discounted return-to-go R_t = sum over u >= t of gamma^(u-t) r_u, within each trajectory.

    Computed by R_t = r_t + gamma R_(t+1), one vector step per turn over all trajectories still that long, so that
    equal reward sequences give bit-equal returns and memory stays linear in the rows.
    """
    rows, alive = table._backward
    value = reward[rows]
    before = at = 0
    for count in alive.tolist():
        if at:
            value[at : at + count] += gamma * value[before : before + count]
        before, at = at, at + count
    result = np.empty(len(table))
    result[rows] = value
    return result


def step_returns(table: StepTable, s: Settings) -> Floats:
    """[n] discounted return-to-go of each row, the penalty placed as ``s.penalty_mode`` says.

    ``global``: the penalty is part of the reward, so that earlier turns feel it, discounted.
    ``local``: taken off this row's return only, after it is formed.
    """
    if s.penalty_mode == "local":
        return discounted_sum(table, table.reward, s.gamma) - penalty(table, s)
    return discounted_sum(table, table.reward - penalty(table, s), s.gamma)


def episode_sum(table: StepTable, values: Floats) -> Floats:
    """[trajectories] sum of ``values`` [n] over the turns of each trajectory, undiscounted."""
    result: Floats = np.bincount(table.trajectory, weights=values, minlength=table.trajectories).astype(np.float64)
    return result


def terminal(table: StepTable, values: Floats) -> Floats:
    """[trajectories] ``values`` [n] at the last turn of each trajectory."""
    return values[table.order[table.trajectory_end]]
