"""PPO: generalised advantage estimation over the turns of a trajectory, with the values of a critic.

    A_t     = sum over l >= 0 of (gamma lam)^l delta_(t+l)                  (Schulman et al., 2016, Eq. 16)
    delta_t = r_t + gamma V(s_(t+1)) - V(s_t)                               V after the last turn is 0
    G_t     = A_t + V(s_t)                                                  what the critic learns
    A is then normalised over the batch: (A - mean A) / (std A + eps)

V(s_t), column `value`, is the critic's value where the first token of the response is predicted: all of the prompt is
known and nothing of the answer.

Defaults: gamma 1, lam 1 (then A_t is the return-to-go minus V), norm_mode mean_std (mean: centred only; none: as it is).
Degenerate: an advantage that is the same in every row gives 0 everywhere; so does a batch of one row.
Deviations: the step of the estimator is a turn and all its tokens share A, where PPO for single answers takes the token
as the step; with lam 1 and gamma 1 the two differ in V alone. A trajectory cut at the turn limit counts as ended, as in
the papers that compare with PPO. penalty_mode=local takes the penalty off that turn's A and G only.

Length shaping, PlanPO's comparison (its Figure 4: "consistent with PlanPO settings, except for the condition control and
basic algorithm"), puts PlanPO's rewards in the place of the environment's:

    shaping=success        r_t = [t is the last turn] 1[success] R / T  +  alpha(k) 1[success] R / L_t
    shaping=unconditional  the same without 1[success]

The paper does not say how the two levels are joined under PPO; here they are added with PlanPO's weight alpha(k).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from .columns import Floats
from .normalise import normalise
from .planpo import PlanpoSettings, alpha_at, length_reward, response_reward
from .registry import register
from .returns import discounted_sum, penalty
from .settings import number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class PpoSettings(PlanpoSettings):
    """alpha, alpha_final, alpha_schedule, success_reward and turns are of the shaping alone."""

    gamma: float = number(1.0, 0.0, 1.0)
    lam: float = number(1.0, 0.0, 1.0)
    norm_mode: Literal["mean_std", "mean", "none"] = "mean_std"  # type: ignore[assignment]
    shaping: Literal["none", "success", "unconditional"] = "none"


def turn_rewards(table: StepTable, s: PpoSettings) -> Floats:
    """[n] r_t, without the penalty."""
    if s.shaping == "none":
        return table.reward
    anyway = s.shaping == "unconditional"
    reward = alpha_at(s) * response_reward(table, s, anyway)
    last = table.order[table.trajectory_end]
    reward[last] += length_reward(table, s, anyway)
    return reward


def generalised_advantage(table: StepTable, s: PpoSettings) -> Floats:
    """[n] A before it is normalised."""
    table.require("value", "ppo")
    value = np.asarray(table.extra["value"], dtype=np.float64)
    loss = penalty(table, s)
    reward = turn_rewards(table, s)
    if s.penalty_mode == "global":
        reward = reward - loss
    following = np.zeros(len(table))
    goes_on = table.position_left[:-1] > 1
    following[table.order[:-1][goes_on]] = value[table.order[1:][goes_on]]
    advantage = discounted_sum(table, reward + s.gamma * following - value, s.gamma * s.lam)
    return advantage - loss if s.penalty_mode == "local" else advantage


def value_targets(table: StepTable, s: PpoSettings) -> Floats:
    """[n] G."""
    return generalised_advantage(table, s) + table.extra["value"]


def value_stats(table: StepTable, s: PpoSettings) -> dict[str, Any]:
    """How much of the targets' variance the critic explains (1: all of it, 0: no more than a constant would)."""
    if not len(table):
        return {"value_mean": 0.0, "value_target_mean": 0.0, "value_explained_variance": 0.0}
    targets = value_targets(table, s)
    variance = float(targets.var())
    left = float((targets - table.extra["value"]).var())
    return {
        "value_mean": float(np.mean(table.extra["value"])),
        "value_target_mean": float(targets.mean()),
        "value_explained_variance": 1.0 - left / variance if variance > s.norm_floor**2 else 0.0,
    }


def needed(s: PpoSettings) -> tuple[str, ...]:
    return ("value",) if s.shaping == "none" else ("value", "success", "response_length")


@register("ppo", stats=value_stats, needs=needed, value_targets=value_targets, groups=False)
def ppo(table: StepTable, s: PpoSettings) -> Floats:
    """float64[n]; constant over the tokens of a turn. Needs the column value."""
    for column in needed(s):
        table.require(column, "ppo")
    advantage = generalised_advantage(table, s)
    if s.norm_mode == "none":
        return advantage
    return normalise(advantage, np.zeros(len(table), dtype=np.int64), 1, s)
