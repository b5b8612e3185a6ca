"""Goals: what to buy, graded in difficulty, split by identity into train, validation and test."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from webshop_env.catalogue import Catalogue, mini
from webshop_env.goalbook import LEVELS, NO_LIMIT, SPLITS, Goal, Tasks, check_split
from webshop_env.options_of import best_options
from webshop_env.reward import attribute_hits, option_hits

PER_PRODUCT = {"easy": 2, "medium": 2, "hard": 1}
HELD_OUT = 300  # goals of each level in validation, and in test
PRICE_STEPS = [10.0 * step for step in range(1, 100)]
OPENINGS = ("find me", "i need", "i am looking for")


class GoalBook:
    """All goals of a catalogue, by split. `splits[name][i]` has the task id "name/{i:06d}", whatever the difficulty."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.splits: dict[str, list[Goal]] = {split: [] for split in SPLITS}
        by_identity: dict[str, Goal] = {}
        for product in catalogue.products.values():
            for level, count in PER_PRODUCT.items():
                for number in range(count):
                    goal = make_goal(product, catalogue.prices[product["asin"]], level, number)
                    # the same wish from two products is one goal, or it could stand in two splits
                    if goal is not None:
                        by_identity.setdefault(goal["identity"], goal)
        ordered = sorted(by_identity.values(), key=lambda goal: goal["order"])
        seen = dict.fromkeys(LEVELS, 0)
        for goal in ordered:
            number = seen[goal["difficulty"]]
            seen[goal["difficulty"]] += 1
            split = "test" if number < HELD_OUT else "validation" if number < 2 * HELD_OUT else "train"
            self.splits[split].append(goal)
        digest = blake2b(catalogue.fingerprint.encode(), digest_size=16)
        for split in SPLITS:
            for goal in self.splits[split]:
                digest.update(f"{split}\n{goal['asin']}\n{goal['instruction_text']}\n".encode())
        self.fingerprint = digest.hexdigest()
        self._tasks: dict[tuple[str, tuple[str, ...]], Tasks] = {}

    def tasks(self, split: str, levels: tuple[str, ...] = LEVELS) -> Tasks:
        """The tasks of `split` whose difficulty is in `levels`. Raises ValueError for an unknown split."""
        check_split(split, self.splits)
        if (split, levels) not in self._tasks:
            goals = self.splits[split]
            ids = [f"{split}/{number:06d}" for number, goal in enumerate(goals) if goal["difficulty"] in levels]
            self._tasks[split, levels] = Tasks(ids, self.fingerprint)
        return self._tasks[split, levels]

    def goal(self, task_id: str) -> Goal:
        """The goal of a task id such as "train/000123". Raises ValueError if there is none."""
        split, _, number = str(task_id).partition("/")
        goals = self.splits.get(split, [])
        if not (number.isascii() and number.isdigit() and int(number) < len(goals)):
            raise ValueError(
                f"task_id {task_id!r} does not exist: use an id that tasks(split) lists, such as 'train/000000'."
            )
        return goals[int(number)]


@lru_cache(maxsize=1)
def mini_goals() -> GoalBook:
    """The goals of the mini catalogue, built once per process."""
    return GoalBook(mini())


def make_goal(product: Mapping[str, Any], price: float, level: str, number: int) -> Goal | None:
    """The `number`-th goal of `level` that `product` fulfils, seeded by its identity; None if it has no options.

    easy: one attribute of the title, one option, the widest price limit. medium: both attributes of the title and one
    or two options. hard: an attribute of the title and one that only the features tell, and all options.
    """
    rng = random.Random(f"{product['asin']} {level} {number}")
    shown, hidden = product["Attributes"][:2], product["Attributes"][2:]
    groups = list(product["options"])
    if not groups:
        return None
    if level == "easy":
        attributes, wanted = [shown[number % len(shown)]], 1
    elif level == "medium":
        attributes, wanted = list(shown), rng.randint(1, min(2, len(groups)))
    else:
        attributes, wanted = [rng.choice(shown), *hidden[:1]], len(groups)
    chosen = set(rng.sample(groups, wanted))
    options = {group: rng.choice(product["options"][group]) for group in groups if group in chosen}

    steps = [step for step in PRICE_STEPS if step > price][:4]
    limit: float = max(rng.sample(steps, 2)) if len(steps) >= 2 else NO_LIMIT
    if level == "easy":
        limit = steps[-1]
    return finish_goal(product, attributes, options, limit, level)


def finish_goal(
    product: Mapping[str, Any], attributes: list[str], options: dict[str, str], limit: float, level: str
) -> Goal:
    """The goal with its instruction in the original's wording."""
    wish = f"{', '.join(attributes)} {product['query']}"
    option_text = ", and ".join(f"{group}: {value}" for group, value in options.items())
    wish += f" with {option_text}" if options else ""
    wish += f", and price lower than {limit:.2f} dollars" if limit < NO_LIMIT else ""
    identity = "|".join([product["query"], *sorted(attributes), option_text, f"{limit:.2f}"])
    order = blake2b(identity.encode(), digest_size=16).hexdigest()
    return {
        "asin": product["asin"],
        "category": product["category"],
        "query": product["query"],
        "name": product["name"],
        "product_category": product["product_category"],
        "instruction_text": f"{OPENINGS[int(order, 16) % len(OPENINGS)]} {wish}",
        "attributes": attributes,
        "price_upper": limit,
        "goal_options": options,
        "weight": 1,
        "difficulty": level,
        "nouns": product["nouns"],
        "identity": identity,
        "order": order,
    }


def fulfilling_options(product: Mapping[str, Any], price: float, goal: Goal) -> dict[str, str] | None:
    """The options with which buying `product` fulfils `goal` completely; None if nothing does.

    Compares with the wanted values themselves where they come with their groups; the original's fuzzy matching accepts a
    few more.
    """
    if product["query"] != goal["query"] or price > goal["price_upper"]:
        return None
    if attribute_hits(product, goal["attributes"]) < len(goal["attributes"]):
        return None
    options = best_options(product, goal)
    return options if option_hits(goal["goal_options"], options.values()) == len(goal["goal_options"]) else None
