"""The options of the environment, checked in one place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from webshop_env.data import CATALOGUES
from webshop_env.goalbook import LEVELS, SPLITS
from webshop_env.pages import MODES, STYLES


@dataclass(frozen=True)
class Options:
    """See WebShopEnv. `levels` is `difficulty` as a tuple of levels."""

    split: str = "train"
    observation_mode: str = "text"
    results_per_page: int = 10
    max_results: int = 50
    difficulty: str | tuple[str, ...] = "all"
    show_attrs: bool = False
    catalogue: str = "embedded"
    data_dir: str | None = None
    pages: str = "faithful"
    levels: tuple[str, ...] = LEVELS


NAMES = tuple(field.name for field in fields(Options) if field.name != "levels")


def parse_options(given: dict[str, Any]) -> Options:
    """The options, complete. Raises ValueError, naming the option, the value and what is allowed."""
    for name in given:
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known options are {', '.join(NAMES)}."
            raise ValueError(f"WebShop has no option {name!r}: {hint}")
    given = {name: value for name, value in given.items() if not (name == "catalogue" and value is None)}
    values = {**{name: getattr(Options, name) for name in NAMES}, **given}
    _one_of("split", values["split"], SPLITS)
    _one_of("observation_mode", values["observation_mode"], MODES)
    _one_of("catalogue", values["catalogue"], CATALOGUES)
    _one_of("pages", values["pages"], STYLES)
    if values["data_dir"] is not None:
        if not isinstance(values["data_dir"], str) or not values["data_dir"]:
            raise ValueError(f"data_dir is {values['data_dir']!r}: give the path of a folder.")
        if "catalogue" in given:
            raise ValueError(
                f"data_dir is {values['data_dir']!r} and catalogue is {values['catalogue']!r}: give one of the two "
                "(catalogue=null for none)."
            )
    for name in ("results_per_page", "max_results"):
        if not isinstance(values[name], int) or isinstance(values[name], bool) or values[name] < 1:
            raise ValueError(f"{name} is {values[name]!r}: give a whole number of at least 1.")
    if not isinstance(values["show_attrs"], bool):
        raise ValueError(f"show_attrs is {values['show_attrs']!r}: give true or false.")
    return Options(**values, levels=_levels(values["difficulty"]))


def _levels(difficulty: Any) -> tuple[str, ...]:
    """ "all", one level, several with commas between, or a list of levels."""
    if difficulty == "all":
        return LEVELS
    named: Iterable[Any] = difficulty
    if isinstance(difficulty, str):
        named = [part.strip() for part in difficulty.split(",")]
    if not isinstance(named, (list, tuple)) or not named or not set(map(str, named)) <= set(LEVELS):
        raise ValueError(f"difficulty is {difficulty!r}: use all, or one or more of {', '.join(LEVELS)}.")
    return tuple(level for level in LEVELS if level in named)


def _one_of(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        near = difflib.get_close_matches(str(value), allowed, n=1)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise ValueError(f"{name} is {value!r}: choose one of {', '.join(allowed)}{hint}.")
