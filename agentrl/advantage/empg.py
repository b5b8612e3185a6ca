"""EMPG: the outcome advantage, stronger where the policy was sure, and a bonus for turns that lead to sure turns.

    A_t    = A(tau) g(H_t) + zeta f(H_(t+1)),  then minus its mean over the batch         (Wang et al., 2025)
    H_t    = mean entropy of the response's tokens, scaled to 0..1 over the batch: (H - min) / (max - min + 1e-8)
    g(H)   = exp(-k H) / mean over the batch of exp(-k H)         so that g is 1 on average
    f(H)   = exp(-k_future H)                                     0 after the last turn of a trajectory
    A(tau) as in grpo.py

Statistics of H and the last centring run over the whole batch, so tasks are not independent here, unlike everywhere else.
Defaults: k 1, k_future 1, zeta 0.1 (those of the authors' published pseudocode), centre true; 0 for all three is GRPO.
Degenerate: entropies all equal give g = 1 and f = 1 for every turn but the last ones; no row, no value.
Deviation: the column `entropy` of a run is the mean of -log p over the tokens that were sampled, an unbiased estimate from
one sample, since rollout engines report no full distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import Bools, Floats
from .grpo import grpo
from .registry import register
from .settings import Settings, number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class EmpgSettings(Settings):
    k: float = number(1.0)
    k_future: float = number(1.0)
    zeta: float = number(0.1)
    centre: bool = True


def scaled_entropy(table: StepTable) -> Floats:
    """[n] in 0..1."""
    table.require("entropy", "empg")
    entropy = table.extra["entropy"]
    low, high = entropy.min(initial=np.inf), entropy.max(initial=-np.inf)
    return (entropy - low) / (high - low + 1e-8)


@register("empg", needs=lambda s: ("entropy",))
def empg(table: StepTable, s: EmpgSettings) -> Floats:
    """float64[n]; constant over the tokens of a turn."""
    if not len(table):
        return np.zeros(0)
    entropy = scaled_entropy(table)
    weight = np.exp(-s.k * entropy)
    advantage = grpo(table, s) * weight / weight.mean()
    if s.zeta:
        bonus = np.zeros(len(table))
        goes_on: Bools = table.position_left[:-1] > 1
        bonus[table.order[:-1][goes_on]] = np.exp(-s.k_future * entropy[table.order[1:][goes_on]])
        advantage = advantage + s.zeta * bonus
    return advantage - advantage.mean() if s.centre else advantage
