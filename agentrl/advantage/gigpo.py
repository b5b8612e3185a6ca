"""GiGPO: the episode's outcome, plus each action's return relative to the other actions taken in the same state.

    A_t = A_E + omega * A_S
    A_E   as in grpo.py
    A_S = (R_t - mean R) / (std R + eps)           over all rows of the task in the same state (the anchor)
    R_t = sum over u >= t of gamma^(u-t) r_u       Eq. 5, invalid penalty included

Defaults: gamma 0.95, omega 1, norm_mode mean_std (mean: neither term is divided), ddof 1, eps 1e-6; two states are
one anchor if equal (similarity=0.9: if alike, see anchors.py).
Degenerate: a state met once, or a state group whose std is below norm_floor, has A_S exactly 0. A state met twice in
one trajectory counts twice, as in the paper. omega 0 is GRPO.
Deviations: none from the paper by default. preset=verl_agent: A_E over step rows, the penalty off single rows after
returns are formed, no floor, and an episode group of a single row keeps its raw score. Not reproduced: float32
noise in groups without spread, and rows copied as padding before the statistics.
Ablations: omega=0 (without A_S), episode_weight=0 (without A_E), norm_mode=mean (F_norm = 1).
"""

from __future__ import annotations

from dataclasses import dataclass

from .anchors import anchor_groups
from .columns import Floats
from .grpo import episode_advantage
from .normalise import normalise
from .registry import register
from .returns import episode_sum, step_returns
from .settings import Settings, number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class GigpoSettings(Settings):
    """omega: weight of A_S; episode_weight: of A_E; similarity: None (equal states) or a threshold in (0, 1]."""

    gamma: float = number(0.95, 0.0, 1.0)
    omega: float = number(1.0)
    episode_weight: float = number(1.0)
    similarity: float | None = number(None, 0.0, 1.0, above=True)


def state_advantage(table: StepTable, s: GigpoSettings) -> Floats:
    """[n] A_S: the return-to-go of each row, normalised over the rows of its state group."""
    groups, count = anchor_groups(table, s.similarity)
    return normalise(step_returns(table, s), groups, count, s)


@register("gigpo")
def gigpo(table: StepTable, s: GigpoSettings) -> Floats:
    """float64[n]; constant over the tokens of a turn."""
    advantage = s.episode_weight * episode_advantage(table, episode_sum(table, table.reward), s)
    if s.omega:
        advantage += s.omega * state_advantage(table, s)
    return advantage
