"""WebShop's attribute and instruction files, kept small in memory, and the goals made from them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from webshop_env.goalbook import Goal
from webshop_env.instructions import human_goals, synthetic_goals
from webshop_env.prepare_parts import GoalMaker
from webshop_env.sources import SourceError, stream_object


def load_attributes(path: Path) -> dict[str, dict[str, Any]]:
    """asin -> attributes, instruction, instruction_attributes, as far as they are there. SourceError for another shape."""
    found: dict[str, dict[str, Any]] = {}
    for asin, given in stream_object(path):
        if not isinstance(given, dict):
            raise SourceError(
                f"{path}: the entry of {asin!r} is a {type(given).__name__}, not an object; fetch the file again."
            )
        own: dict[str, Any] = {}
        for name in ("attributes", "instruction_attributes"):
            if isinstance(given.get(name), list):
                own[name] = [sys.intern(str(attribute)) for attribute in given[name]]
        if isinstance(given.get("instruction"), str):
            own["instruction"] = given["instruction"]
        found[asin] = own
    return found


def load_human(path: Path) -> dict[str, list[dict[str, Any]]]:
    """asin -> instructions that people wrote. SourceError for another shape, naming the product."""
    found: dict[str, list[dict[str, Any]]] = {}
    for asin, given in stream_object(path):
        shaped = isinstance(given, list) and all(
            isinstance(one, dict)
            and isinstance(one.get("instruction"), str)
            and isinstance(one.get("instruction_attributes"), list)
            and isinstance(one.get("instruction_options"), list)
            for one in given
        )
        if not shaped:
            raise SourceError(
                f"{path}: the instructions of {asin!r} lack instruction, instruction_attributes or instruction_options; fetch "
                "the file again."
            )
        found[asin] = given
    return found


def make_goals(
    kind: str, human: Mapping[str, list[dict[str, Any]]], attributes: Mapping[str, Mapping[str, Any]]
) -> GoalMaker:
    """The goals of one product: human ones, or synthetic ones from the attribute file."""

    def make(product: Mapping[str, Any], price: float, number: int) -> Iterable[Goal]:
        asin = product["asin"]
        if kind == "human":
            return human_goals(product, price, human.get(asin, ()))
        return synthetic_goals(product, price, attributes.get(asin, {}))

    return make
