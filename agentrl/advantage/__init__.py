"""The advantage stage: StepTable -> float64[steps]. Only numpy; one file per method.

    table = StepTable.from_rows(rows)
    a = compute(table, "ptgpo", gamma=0.95, tau_expand=2)     # float64, one per row, in the order of the rows given

Your own, in any importable module, named ``my_package.my_module:first_turn`` in the recipe (or ``@register("name")``):

    from dataclasses import dataclass
    from agentrl.advantage import Settings, StepTable, episode_sum, normalise, number

    @dataclass(frozen=True, kw_only=True)
    class FirstTurnSettings(Settings):              # beside gamma, norm_*, ...: its own keyword
        rest: float = number(0.0)                   # weight of all later turns

    def first_turn(table: StepTable, s: FirstTurnSettings):
        outcome = episode_sum(table, table.reward)
        advantage = normalise(outcome, table.trajectory_group, table.groups, s)
        return advantage[table.trajectory] * (table.turn == 0) + s.rest * advantage[table.trajectory] * (table.turn > 0)
"""

from __future__ import annotations

from typing import Any

from . import (  # noqa: F401  (they register themselves)
    anchor_grpo,
    dapo,
    drgrpo,
    empg,
    first_step_grpo,
    gigpo,
    grpo,
    planpo,
    ppo,
    pta_grpo,
    ptgpo,
    rloo,
    terms,
)  # fmt: skip
from .columns import Bools, Floats
from .normalise import GroupStats, group_stats, normalise
from .progress import ProgressSettings
from .registry import (
    LOSS_ROWS,
    METHODS,
    NEEDS,
    STATS,
    VALUE_TARGETS,
    WITHOUT_GROUPS,
    make_settings,
    register,
    resolve,
    run,
    settings_fields,
)  # fmt: skip
from .returns import discounted_sum, episode_sum, penalty, step_returns, terminal
from .settings import Field, Range, Settings, number
from .stats import describe
from .table import StepTable

__all__ = [
    "METHODS", "NEEDS", "WITHOUT_GROUPS", "Field", "GroupStats", "ProgressSettings", "Range", "Settings", "StepTable",
    "compute", "compute_with_stats", "describe", "discounted_sum", "episode_sum", "group_stats", "loss_rows",
    "make_settings", "needs_critic", "normalise", "number", "penalty", "register", "resolve", "settings_fields", "step_returns",
    "terminal", "value_targets",
]  # fmt: skip


def compute(table: StepTable, name: str, **keywords: Any) -> Floats:
    """Advantage of every row: float64[n], in the order of the rows that made the table.

    ``name`` is a registered method or ``package.module:function``; ``keywords`` are its settings (see
    ``settings_fields(name)``). Raises ValueError for an unknown method, an unknown keyword (naming the nearest) or a
    value that is not allowed. Never NaN.
    """
    return run(table, name, make_settings(name, **keywords))


def compute_with_stats(table: StepTable, name: str, **keywords: Any) -> tuple[Floats, dict[str, Any]]:
    """The same, and what the method saw: see ``agentrl.advantage.stats.describe``; ptgpo adds its trees."""
    settings = make_settings(name, **keywords)
    advantage = run(table, name, settings)
    extra = STATS[name](table, settings) if name in STATS else {}
    return advantage, describe(table, advantage) | extra


def loss_rows(table: StepTable, name: str, **keywords: Any) -> Bools | None:
    """bool[n]: the rows that the loss and its denominator are made of; None for all (most methods)."""
    return LOSS_ROWS[name](table, make_settings(name, **keywords)) if name in LOSS_ROWS else None


def value_targets(table: StepTable, name: str, **keywords: Any) -> Floats | None:
    """float64[n]: what a critic should say of every row, None for methods without one.

    A method of your own that names `value` in its needs and gives no targets gets the discounted return-to-go.
    """
    settings = make_settings(name, **keywords)
    if name in VALUE_TARGETS:
        return VALUE_TARGETS[name](table, settings)
    return step_returns(table, settings) if needs_critic(name, settings) else None


def needs_critic(name: str, settings: Settings) -> bool:
    """Whether the method reads the column `value`."""
    return name in NEEDS and "value" in NEEDS[name](settings)
