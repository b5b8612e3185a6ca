"""RLOO: the episode's return against the mean of the other trajectories of its group (Ahmadian et al., 2024).

    A(tau_i) = R(tau_i) - 1/(n-1) * sum over j != i of R(tau_j)  =  n/(n-1) * (R(tau_i) - mean_j R(tau_j))
    R(tau)   = sum over t of r_t                                  undiscounted, invalid penalty included

Degenerate: a group of one has no others and gets exactly 0; so does a group whose std is below norm_floor.
Deviations: none. There is no division by a spread, and a trajectory counts once however long it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .columns import Floats
from .grpo import episode_advantage
from .registry import register
from .returns import episode_sum
from .settings import Settings
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class RlooSettings(Settings):
    """The switches that would make it another estimator are fixed."""

    norm_mode: Literal["mean"] = "mean"  # type: ignore[assignment]
    stat_unit: Literal["trajectory"] = "trajectory"  # type: ignore[assignment]
    penalty_mode: Literal["global"] = "global"  # type: ignore[assignment]
    preset: Literal["none"] | None = None  # type: ignore[assignment]


@register("rloo")
def rloo(table: StepTable, s: RlooSettings) -> Floats:
    """float64[n]; every turn of a trajectory gets the same value."""
    size = np.bincount(table.trajectory_group, minlength=table.groups)[table.group]
    advantage = episode_advantage(table, episode_sum(table, table.reward), s)
    return advantage * size / np.maximum(size - 1, 1)
