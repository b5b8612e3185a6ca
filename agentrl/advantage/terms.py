"""A weighted sum of terms, so that a new method is often a few lines of YAML.

    advantage:
      name: terms
      terms: {episode: 1.0, state_group: 0.5, prefix_tree: 0.5}

    A_k = sum over terms of weight * term(k)

    episode      the return of the trajectory, normalised over its group                         grpo.py
    terminal     the reward of its last turn (penalties off), normalised over its group          ptgpo.py, A_E
    state_group  the discounted return-to-go, normalised over the rows in the same state         gigpo.py, A_S
    prefix_tree  the credits of the prefix trees                                                 ptgpo.py, A_PT
    response     1 / response length among the successes of the task                             planpo.py, A_S

Any other name is a method, registered or as package.module:function; it gets those of the settings here that it has.
A list of names gives each the weight 1. {episode: 1, state_group: 1} is gigpo, {terminal: 1, prefix_tree: 1} ptgpo.
Defaults: as gigpo, with norm_eps 1e-6 in every term.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .columns import Floats
from .gigpo import GigpoSettings, state_advantage
from .grpo import episode_advantage
from .planpo import PlanpoSettings, response_advantage
from .ptgpo import PtgpoSettings, tree_advantage, tree_stats
from .registry import METHODS, make_settings, register, resolve, settings_fields
from .returns import episode_sum, terminal
from .settings import number
from .table import StepTable

TERMS: dict[str, Callable[[StepTable, Any], Floats]] = {
    "episode": lambda table, s: episode_advantage(table, episode_sum(table, table.reward), s),
    "terminal": lambda table, s: episode_advantage(table, terminal(table, table.reward), s),
    "state_group": state_advantage,
    "prefix_tree": tree_advantage,
    "response": response_advantage,
}


@dataclass(frozen=True, kw_only=True)
class TermsSettings(GigpoSettings, PtgpoSettings, PlanpoSettings):
    """The settings of all terms together, and `terms`: name -> weight, or a list of names."""

    norm_eps: float = number(1e-6)
    terms: Any = dataclasses.field(default=("episode",))

    def __post_init__(self) -> None:
        if not self.weights:
            raise ValueError(
                f"setting 'terms' of advantage 'terms' is empty; name at least one of {', '.join(TERMS)}, or a method."
            )
        for name, weight in self.weights.items():
            if not isinstance(weight, numbers.Real) or isinstance(weight, bool) or not math.isfinite(weight):
                raise ValueError(f"setting 'terms' gives {name!r} the weight {weight!r}; it must be a finite number.")
            if name not in TERMS and ":" not in name and (name not in METHODS or name == "terms"):
                known = [*TERMS, *(m for m in METHODS if m != "terms")]
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)[0]
                raise ValueError(f"setting 'terms' names {name!r}, which is unknown; nearest: {near!r}.")
            if name not in TERMS:
                resolve(name)

    @property
    def weights(self) -> dict[str, float]:
        if self.terms is None or isinstance(self.terms, str):
            return {self.terms: 1.0} if self.terms else {}
        return (
            {str(k): v for k, v in self.terms.items()}
            if hasattr(self.terms, "items")
            else dict.fromkeys(self.terms, 1.0)
        )


def term(table: StepTable, name: str, s: TermsSettings) -> Floats:
    """float64[n] of one term, before its weight."""
    if name in TERMS:
        return TERMS[name](table, s)
    shared = {key: getattr(s, key) for key, field in settings_fields(name).items() if _fits(s, key, field)}
    return np.asarray(resolve(name)(table, make_settings(name, **shared)), dtype=np.float64)


def _fits(s: TermsSettings, key: str, field: Any) -> bool:
    """Whether a method's own setting can take the value here (a method that fixes a switch keeps it)."""
    if not hasattr(s, key) or key == "preset":
        return False
    allowed = field.allowed
    return not isinstance(allowed, tuple) or hasattr(allowed, "low") or getattr(s, key) in allowed


def stats(table: StepTable, s: TermsSettings) -> dict[str, Any]:
    return tree_stats(table, s) if "prefix_tree" in s.weights else {}


@register("terms", stats=stats)
def terms(table: StepTable, s: TermsSettings) -> Floats:
    """float64[n]; constant over the tokens of a turn."""
    total = np.zeros(len(table))
    for name, weight in s.weights.items():
        total += weight * term(table, name, s)
    return total
