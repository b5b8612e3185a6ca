"""DAPO: GRPO's advantage on returns that lose a little where a response nearly fills its room (Yu et al., 2025).

    A(tau_i) = (R(tau_i) - mean_j R(tau_j)) / (std_j R(tau_j) + eps)          as in grpo.py
    R(tau)   = sum over t of (r_t + factor * soft(L_t))                       L_t: response tokens of the turn
    soft(L)  = 0                                  for L <= limit - buffer
             = (limit - buffer - L) / buffer      up to L = limit             overlong shaping, Eq. 13
             = -1                                 beyond it

The rest of DAPO is not an advantage: actor.clip_high above actor.clip_low, loss over all tokens of the step
(actor.loss_aggregation=token-mean), no KL term (actor.kl_coef=0), and groups without spread sampled anew
(trainer.max_resampled_groups). The recipe sets them.
Defaults: overlong_buffer 0, which is no shaping; overlong_limit has to be given with a buffer. factor 1.
Deviation: the paper has one response per answer; here every turn has its own room.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import Floats
from .grpo import episode_advantage
from .registry import register
from .returns import episode_sum
from .settings import Settings, number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class DapoSettings(Settings):
    """overlong_limit: the most tokens a response may have; overlong_buffer: how many of them are punished."""

    overlong_limit: int | None = number(None, 1)
    overlong_buffer: int = number(0)
    overlong_factor: float = number(1.0)

    def __post_init__(self) -> None:
        if self.overlong_buffer and (self.overlong_limit is None or self.overlong_limit < self.overlong_buffer):
            raise ValueError(
                f"setting 'overlong_buffer' of advantage 'dapo' is {self.overlong_buffer} and overlong_limit is "
                f"{self.overlong_limit}; the limit must be given and be at least as large."
            )


def overlong(length: Floats, s: DapoSettings) -> Floats:
    """[n] soft(L), in -1..0."""
    if not s.overlong_buffer:
        return np.zeros(len(length))
    assert s.overlong_limit is not None  # checked by the settings
    return np.clip((s.overlong_limit - s.overlong_buffer - length) / s.overlong_buffer, -1.0, 0.0)


@register("dapo")
def dapo(table: StepTable, s: DapoSettings) -> Floats:
    """float64[n]; every turn of a trajectory gets the same value (penalty_mode=local apart)."""
    shaped = table.reward + s.overlong_factor * overlong(table.response_length.astype(np.float64), s)
    return episode_advantage(table, episode_sum(table, shaped), s)
