"""Dr. GRPO: GRPO without the two divisions that bias it (Liu et al., 2025).

    A(tau_i) = R(tau_i) - mean_j R(tau_j)                         j over the trajectories of the task
    R(tau)   = sum over t of r_t                                  undiscounted, invalid penalty included

The other half of the method is the loss: its sum over tokens is divided by a constant, not by the number of tokens
(actor.loss_aggregation=token-sum; the recipe sets it). norm_mode=mean_std is refused here: that is `grpo`.
Degenerate: a group of one, or one whose std is below norm_floor, gets exactly 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .columns import Floats
from .grpo import grpo
from .registry import register
from .settings import Settings
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class DrgrpoSettings(Settings):
    norm_mode: Literal["mean"] = "mean"  # type: ignore[assignment]


@register("drgrpo")
def drgrpo(table: StepTable, s: DrgrpoSettings) -> Floats:
    """float64[n]; every turn of a trajectory gets the same value (penalty_mode=local apart)."""
    return grpo(table, s)
