"""Which options of a product fulfil what a goal wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from webshop_env.reward import alike, normalize_color


def best_options(product: Mapping[str, Any], goal: Mapping[str, Any]) -> dict[str, str]:
    """For every option group of the product a value that the goal wants, where there is one; the exact one first.

    A goal's options are values with their groups (a mapping) or values alone (a list, as people wrote them).
    """
    wanted = goal["goal_options"]
    if isinstance(wanted, Mapping):
        return {g: v for g, v in wanted.items() if v in product["options"].get(g, ())}
    chosen: dict[str, str] = {}
    for value in wanted:
        free = {group: values for group, values in product["options"].items() if group not in chosen}
        exact = next((group for group, values in free.items() if value in values), None)
        if exact is not None:
            chosen[exact] = value
            continue
        color = normalize_color(value)
        near = ((g, v) for g, values in free.items() for v in values if alike(normalize_color(v), color))
        found = next(near, None)
        if found is not None:
            chosen[found[0]] = found[1]
    return chosen
