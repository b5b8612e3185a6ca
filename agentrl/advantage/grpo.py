"""GRPO: the episode's outcome relative to its group, the same for every turn of the trajectory.

    A(tau_i) = (R(tau_i) - mean_j R(tau_j)) / (std_j R(tau_j) + eps)        j over the trajectories of the task
    R(tau)   = sum over t of r_t                                            undiscounted, invalid penalty included

norm_mode=mean leaves the division out (GiGPO's F_norm = 1; the leave-one-out estimator up to n/(n-1)).

Defaults: norm_mode mean_std, ddof 1, eps 1e-6, statistics over trajectories.
Degenerate: a group of one, or one whose std is below norm_floor, gets exactly 0.
Deviations: the public GiGPO code takes mean and std over the step rows, so that a long trajectory weighs more
(stat_unit=step), and takes the penalty off single rows (penalty_mode=local); preset=verl_agent sets both. With
penalty_mode=local and stat_unit=trajectory, the statistics are those of the unpenalised returns.
"""

from __future__ import annotations

from .columns import Floats
from .normalise import group_stats
from .registry import register
from .returns import episode_sum, penalty
from .settings import Settings
from .table import StepTable


def episode_advantage(table: StepTable, outcome: Floats, s: Settings) -> Floats:
    """[n] normalised outcome of each row's trajectory; ``outcome`` [trajectories] is without any penalty."""
    loss = penalty(table, s)
    if s.penalty_mode == "global":
        outcome = outcome - episode_sum(table, loss)
        score = outcome[table.trajectory]
    else:
        score = outcome[table.trajectory] - loss
    if s.stat_unit == "step":
        stats = group_stats(score, table.group, table.groups, s, s.singleton)
    else:
        stats = group_stats(outcome, table.trajectory_group, table.groups, s, s.singleton)
    return stats.apply(score, table.group)


@register("grpo")
def grpo(table: StepTable, s: Settings) -> Floats:
    """float64[n]; every turn of a trajectory gets the same value (penalty_mode=local apart)."""
    return episode_advantage(table, episode_sum(table, table.reward), s)
