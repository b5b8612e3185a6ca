"""PlanPO: among the successes of a task, shorter trajectories and shorter responses are better.

    A(a_it)   = A_E(tau_i) + alpha(k) A_S(a_it)                                                  Eq. 7
    A_E       = (R_E - mean R_E) / (std R_E + eps)      over the trajectories of the task        Eq. 3
    R_E(tau)  = 1[success] R / T                        T: turns of the trajectory               Eq. 2
    A_S       = (R_S - mean R_S) / (std R_S + eps)      over the responses of the task           Eq. 6
    R_S(a_it) = 1[success] R / L_it                     L: response tokens of the turn           Eq. 5
    alpha(k)  = from alpha down to alpha_final, linearly over the run (k: updates done)          Eq. 8

Defaults: R 10, alpha 0.1 decaying to half of it, norm_mode mean_std (mean: neither term is divided), ddof 1, eps 1e-6.
A failure counts as 0 in the mean of A_E. A_S is taken over the successful responses of the task, all turns in one
group (the text says so; Eq. 4 groups by turn: turn_group=per_turn), and is 0 for those of failures
(members=all: failures count in it with 0).
Degenerate: a group of one, or one whose std is below norm_floor, gets exactly 0: no success, no signal.
Choices where the paper is silent: T counts all turns (turns=valid: those with a valid action, as a reader may take
"valid interaction turns"). The invalid-action penalty comes off R_E, once for every invalid turn, and never depends
on success, so that no invalid action is free; penalty_mode=local: off that row's score only, after the statistics.
Ablations (Figure 3): alpha=0 (A_E only), episode_weight=0 (A_S only), alpha_schedule=constant, alpha=0.2 ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .columns import Bools, Floats
from .grpo import episode_advantage
from .normalise import normalise
from .progress import ProgressSettings
from .registry import register
from .returns import episode_sum
from .settings import number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class PlanpoSettings(ProgressSettings):
    """alpha_final: None for half of alpha. success_reward: R."""

    alpha: float = number(0.1)
    alpha_final: float | None = number(None)
    alpha_schedule: Literal["linear", "cosine", "constant"] = "linear"
    success_reward: float = number(10.0, above=True)
    episode_weight: float = number(1.0)
    turn_group: Literal["flat", "per_turn"] = "flat"
    members: Literal["success", "all"] = "success"
    turns: Literal["all", "valid"] = "all"


def alpha_at(s: PlanpoSettings) -> float:
    """alpha(k), Eq. 8."""
    final = s.alpha / 2 if s.alpha_final is None else s.alpha_final
    done = {"linear": s.share, "cosine": (1 - math.cos(math.pi * s.share)) / 2, "constant": 0.0}[s.alpha_schedule]
    return s.alpha + (final - s.alpha) * done


def length_reward(table: StepTable, s: PlanpoSettings, anyway: bool = False) -> Floats:
    """[trajectories] R_E; anyway: without the condition of success (for ppo.py)."""
    success = np.ones(table.trajectories) if anyway else _reached(table)
    turns = table.trajectory_length if s.turns == "all" else episode_sum(table, table.valid.astype(np.float64))
    return s.success_reward * success / np.maximum(turns, 1)


def response_reward(table: StepTable, s: PlanpoSettings, anyway: bool = False) -> Floats:
    """[n] R_S; anyway: without the condition of success (for ppo.py)."""
    success = np.ones(len(table)) if anyway else _reached(table)[table.trajectory]
    return s.success_reward * success / np.maximum(table.response_length, 1)


def response_advantage(table: StepTable, s: PlanpoSettings) -> Floats:
    """[n] A_S."""
    success = _reached(table)[table.trajectory]
    reward = response_reward(table, s)
    groups, count = table.group, table.groups
    if s.turn_group == "per_turn":
        _, groups = np.unique(table.group * (int(table.turn.max(initial=0)) + 1) + table.turn, return_inverse=True)
        count = int(groups.max(initial=-1)) + 1
    if s.members == "all":
        return normalise(reward, groups, count, s)
    advantage = np.zeros(len(table))
    advantage[success] = normalise(reward[success], groups[success], count, s)
    return advantage


def _reached(table: StepTable) -> Bools:
    """bool[trajectories]: the goal was reached, on whichever rows of the trajectory that is noted."""
    noted: Bools = np.bincount(table.trajectory, weights=table.success, minlength=table.trajectories) > 0
    return noted


@register("planpo", needs=lambda s: ("success", "response_length"))
def planpo(table: StepTable, s: PlanpoSettings) -> Floats:
    """float64[n]; constant over the tokens of a turn. Needs the columns success and response_length."""
    for column in ("success", "response_length"):
        table.require(column, "planpo")
    advantage = s.episode_weight * episode_advantage(table, length_reward(table, s), s)
    alpha = alpha_at(s)
    if alpha:
        advantage = advantage + alpha * response_advantage(table, s)
    return advantage
