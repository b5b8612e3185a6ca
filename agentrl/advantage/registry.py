"""Methods by name, and a user's own by import path."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import numpy as np

from .columns import Bools, Floats
from .settings import Field, Settings, fields, make
from .table import StepTable

Method = Callable[[StepTable, Any], Floats]
F = TypeVar("F", bound=Callable[..., Any])

METHODS: dict[str, Method] = {}
STATS: dict[str, Callable[[StepTable, Any], dict[str, Any]]] = {}
LOSS_ROWS: dict[str, Callable[[StepTable, Any], Bools]] = {}
NEEDS: dict[str, Callable[[Any], tuple[str, ...]]] = {}
VALUE_TARGETS: dict[str, Callable[[StepTable, Any], Floats]] = {}
WITHOUT_GROUPS: set[str] = set()  # methods that compare no trajectories of a group


def register(
    name: str,
    stats: Callable[[StepTable, Any], dict[str, Any]] | None = None,
    loss_rows: Callable[[StepTable, Any], Bools] | None = None,
    needs: Callable[[Any], tuple[str, ...]] | None = None,
    value_targets: Callable[[StepTable, Any], Floats] | None = None,
    groups: bool = True,
) -> Callable[[F], F]:
    """Decorator: makes a function (table, settings) -> float64[n] known under ``name``.

    ``stats(table, settings)`` may add entries to what ``compute_with_stats`` reports. ``loss_rows(table, settings)``
    -> bool[n] says which rows the loss is made of, its denominator included (all, unless given). ``needs(settings)``
    names columns beyond the required ones without which the method cannot work; with `value` among them a run gets a
    critic, which learns ``value_targets(table, settings)`` -> float64[n]. ``groups`` False: groups of one will do.
    """

    def add(function: F) -> F:
        if METHODS.get(name, function) is not function:
            raise ValueError(f"advantage {name!r} is registered already; choose another name.")
        METHODS[name] = function
        if stats is not None:
            STATS[name] = stats
        if loss_rows is not None:
            LOSS_ROWS[name] = loss_rows
        if needs is not None:
            NEEDS[name] = needs
        if value_targets is not None:
            VALUE_TARGETS[name] = value_targets
        if not groups:
            WITHOUT_GROUPS.add(name)
        return function

    return add


def resolve(name: str) -> Method:
    """The function behind a registered name or an import path ``package.module:function``."""
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        near = difflib.get_close_matches(name, METHODS, n=2, cutoff=0.0)
        raise ValueError(
            f"advantage {name!r} is unknown; nearest: {', '.join(near)} (or give your own as package.module:function)."
        )
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(
            f"advantage {name!r} cannot be imported ({error}); check that package.module:function is importable here."
        ) from error
    if not callable(function):
        raise ValueError(f"advantage {name!r} is a {type(function).__name__}; name a function (table, settings).")
    result: Method = function
    return result


def settings_type(function: Method) -> type[Settings]:
    """The Settings class that the function's second parameter is annotated with; Settings itself if it is not."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 2:
        raise ValueError(
            f"advantage function {getattr(function, '__name__', function)!r} takes {len(parameters)} parameters; "
            "it must take (table, settings)."
        )
    kind = get_type_hints(function).get(parameters[1], Settings)
    return kind if isinstance(kind, type) and issubclass(kind, Settings) else Settings


def settings_fields(name: str) -> dict[str, Field]:
    """Keywords of a method: name -> (type, default, allowed)."""
    return fields(settings_type(resolve(name)))


def make_settings(name: str, **keywords: Any) -> Settings:
    """Checked settings; ValueError names an unknown keyword and its nearest, or a value that is not allowed."""
    return make(settings_type(resolve(name)), name, keywords)


def run(table: StepTable, name: str, settings: Settings) -> Floats:
    """The method's result, checked: float64, one finite value per row."""
    result = np.asarray(resolve(name)(table, settings), dtype=np.float64)
    if result.shape != (len(table),):
        raise ValueError(f"advantage {name!r} returned shape {result.shape} for {len(table)} rows; return one per row.")
    result = result + 0.0  # no negative zero
    if not np.isfinite(result).all():
        row = int(np.flatnonzero(~np.isfinite(result))[0])
        raise ValueError(f"advantage {name!r} is {result[row]} in row {row}; guard its divisions.")
    return result
