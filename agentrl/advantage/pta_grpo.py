"""PTA-GRPO: m plans per question, z solutions per plan; a plan is worth what its solutions reach.

    R(i, j)   = analytic_i + beta * outcome_ij + structure_ij + length_ij
    analytic  = softmax over the plans of the question of (accuracy_i / temperature)      (analytic=raw: accuracy_i)
    accuracy  = mean over the plan's solutions of outcome
    structure = `structure` for a well-formed response, else 0
    length    = alpha * exp(-|L - T| / (Tmax - T))     T: shortest correct response of the question, Tmax: its longest
    A(i, j)   = (R(i, j) - mean R) / std R             over the m * z pairs of the question, ddof 0

Defaults: alpha 0.1, beta 1, temperature 1, structure 0.2, ddof 0, no eps. Tmax is the longest response of the question
(max_length: a fixed one).
Degenerate: no correct response, length 0; Tmax = T, length alpha for every response; a group of one or without spread, A 0.
Every row gets its pair's advantage. plan_credit says what a row of a plan's own tokens (stage "plan") gets: pair, the
pair's; plan_mean, the mean over the plan's pairs; plan_only, the plan's analytic reward normalised over the plans.
Ablations: structure=0 (without format), analytic_weight=0 (without the analytic reward).
Columns: plan (label of the plan, in a question), success (the outcome), response_length, well_formed (else: valid).
A solution is a trajectory; its length is the sum over its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from .columns import Floats, Ints
from .normalise import normalise
from .registry import register
from .returns import episode_sum
from .settings import Settings, number
from .table import StepTable


@dataclass(frozen=True, kw_only=True)
class PtaSettings(Settings):
    """Weights and switches of the reward; see the top of the file."""

    norm_ddof: int = number(0, 0, 1)
    norm_eps: float = number(0.0)
    alpha: float = number(0.1)
    beta: float = number(1.0)
    temperature: float = number(1.0, above=True)
    structure: float = number(0.2)
    analytic: Literal["softmax", "raw"] = "softmax"
    analytic_weight: float = number(1.0)
    max_length: int | None = number(None, 1)
    plan_credit: Literal["pair", "plan_mean", "plan_only"] = "pair"


@dataclass(frozen=True)
class Pairs:
    """What the reward is made of. plan: [trajectories] code of (question, plan); question: [plans]; the rest [...]."""

    plan: Ints
    question: Ints
    analytic: Floats  # [plans]
    outcome: Floats  # [trajectories]
    structure: Floats
    length: Floats
    total: Floats


def pairs(table: StepTable, s: PtaSettings) -> Pairs:
    """The rewards of all (plan, solution) pairs of the batch."""
    for column in ("plan", "success", "response_length"):
        table.require(column, "pta_grpo")
    last = table.order[table.trajectory_end]
    kinds = max(len(table.labels["plan"]), 1)
    codes, plan = np.unique(table.trajectory_group * kinds + table.plan[last], return_inverse=True)
    question = codes // kinds
    outcome = (episode_sum(table, table.success.astype(np.float64)) > 0).astype(np.float64)
    size = np.bincount(plan, minlength=len(codes))
    accuracy = np.bincount(plan, weights=outcome, minlength=len(codes)) / np.maximum(size, 1)
    analytic = accuracy if s.analytic == "raw" else _softmax(accuracy / s.temperature, question, table.groups)
    formed = table.extra["well_formed"] > 0 if "well_formed" in table.extra else table.valid
    broken = episode_sum(table, (~formed).astype(np.float64)) > 0
    structure = np.where(broken, 0.0, s.structure)
    length = s.alpha * _closeness(episode_sum(table, table.response_length.astype(np.float64)), outcome, table, s)
    total = s.analytic_weight * analytic[plan] + s.beta * outcome + structure + length
    return Pairs(plan, question, analytic, outcome, structure, length, total)


def _softmax(values: Floats, groups: Ints, count: int) -> Floats:
    top = np.full(count, -np.inf)
    np.maximum.at(top, groups, values)
    weight = np.exp(values - top[groups])
    return weight / np.bincount(groups, weights=weight, minlength=count)[groups]


def _closeness(length: Floats, outcome: Floats, table: StepTable, s: PtaSettings) -> Floats:
    """[trajectories] exp(-|L - T| / (Tmax - T)), with its defined cases."""
    group, count = table.trajectory_group, table.groups
    shortest, longest = np.full(count, np.inf), np.full(count, -np.inf)
    right = outcome > 0
    np.minimum.at(shortest, group[right], length[right])
    np.maximum.at(longest, group, length)
    if s.max_length is not None:
        longest = np.full(count, float(s.max_length))
    result = np.zeros(len(length))
    answered = np.isfinite(shortest[group])
    width = np.where(answered, longest[group] - np.where(answered, shortest[group], 0.0), 1.0)
    distance = np.abs(length - np.where(answered, shortest[group], 0.0))
    flat = answered & (width <= 0)
    usual = answered & ~flat
    result[flat] = 1.0
    result[usual] = np.exp(-distance[usual] / width[usual])
    return result


@register("pta_grpo", needs=lambda s: ("plan", "success", "response_length"))
def pta_grpo(table: StepTable, s: PtaSettings) -> Floats:
    """float64[n]; constant over a solution, but for the rows of stage "plan" (plan_credit)."""
    found = pairs(table, s)
    advantage = normalise(found.total, table.trajectory_group, table.groups, s)
    result = advantage[table.trajectory]
    stages = table.labels["stage"]
    if s.plan_credit == "pair" or "plan" not in stages:
        return result
    if s.plan_credit == "plan_mean":
        size = np.bincount(found.plan, minlength=len(found.question))
        credit = np.bincount(found.plan, weights=advantage, minlength=len(found.question)) / np.maximum(size, 1)
    else:
        credit = normalise(found.analytic, found.question, table.groups, s)
    return np.where(table.stage == stages.index("plan"), credit[found.plan][table.trajectory], result)
