"""Goals from WebShop's own instruction files, human and synthetic, in the original's wording and order.

One thing differs: the original samples price limits from the global random numbers of the process, so that the same goal
has another limit each time. Here the limit is drawn with the goal's identity as its seed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from webshop_env.goalbook import NO_LIMIT, Goal
from webshop_env.options_of import best_options
from webshop_env.reward import purchase_reward

PRICE_STEPS = [10.0 * step for step in range(1, 100)]
SHUFFLE_SEED = 233  # of the original's goal list
PUBLISHED = {"test": (0, 500), "validation": (500, 1500), "train": (1500, None)}  # by place after the shuffle


def human_goals(product: Mapping[str, Any], price: float, instructions: Sequence[Mapping[str, Any]]) -> Iterator[Goal]:
    """One goal for each instruction that names at least one attribute; weight 1."""
    for number, given in enumerate(instructions):
        attributes = list(given["instruction_attributes"])
        if not attributes:
            continue
        text = str(given["instruction"])
        limit, words = price_limit(price, f"{product['asin']} human {number}")
        yield _goal(product, price, text.strip(".") + words, attributes, limit, list(given["instruction_options"]))


def synthetic_goals(product: Mapping[str, Any], price: float, given: Mapping[str, Any]) -> Iterator[Goal]:
    """One goal for each combination of option values. Their `weight` needs the counts of all goals: see `weigh`."""
    text, attributes = given.get("instruction"), list(given.get("instruction_attributes") or [])
    if not text or not attributes:
        return
    limit, words = price_limit(price, f"{product['asin']} synthetic")
    names = sorted(product["options"])
    for values in itertools.product(*(product["options"][name] for name in names)):
        options = dict(zip(names, values, strict=True))
        wanted = ", and ".join(f"{name}: {value}" for name, value in options.items())
        with_words = f"{text} with {wanted}" if wanted else str(text)
        yield _goal(product, price, with_words + words, attributes, limit, options)


def price_limit(price: float, identity: str) -> tuple[float, str]:
    """The limit and its words: the larger of two of the next four steps of ten dollars; none where only one is left."""
    steps = [step for step in PRICE_STEPS if step > price][:4]
    if len(steps) < 2:
        return NO_LIMIT, ""
    limit = max(random.Random(f"price {identity}").sample(steps, 2))
    return limit, f", and price lower than {limit:.2f} dollars"


def _goal(
    product: Mapping[str, Any], price: float, text: str, attributes: list[str], limit: float, options: Any
) -> Goal:
    constraints = len(attributes) + len(options)
    goal: Goal = {
        "asin": product["asin"],
        "category": product["category"],
        "query": product["query"],
        "name": product["name"],
        "product_category": product["product_category"],
        "instruction_text": text,
        "attributes": attributes,
        "price_upper": limit,
        "goal_options": options,
        "weight": 1,
        "difficulty": "easy" if constraints <= 2 else "medium" if constraints == 3 else "hard",
        "nouns": product["nouns"],
        "identity": product["asin"],
    }
    goal["solvable"] = solvable(product, price, goal)
    return goal


def solvable(product: Mapping[str, Any], price: float, goal: Goal) -> bool:
    """Whether buying the goal's own product, with the best options, earns the whole reward."""
    nouns = product["nouns"]
    options = best_options(product, goal)
    reward, _ = purchase_reward(product, goal, price, options, goal_nouns=nouns, purchased_nouns=nouns)
    return reward == 1.0


def weigh(attributes: Sequence[Sequence[str]]) -> list[float]:
    """[goals] the mean over a goal's attributes of 1 / the number of goals that name it (the original's weights)."""
    count: dict[str, int] = {}
    for named in attributes:
        for attribute in named:
            count[attribute] = count.get(attribute, 0) + 1
    return [sum(1.0 / count[attribute] for attribute in named) / len(named) for named in attributes]


def published_splits(goals: int) -> dict[str, list[int]]:
    """Split -> numbers of the goals, as the original shuffles and cuts its list."""
    order = list(range(goals))
    random.Random(SHUFFLE_SEED).shuffle(order)
    return {split: order[first:last] for split, (first, last) in PUBLISHED.items()}
