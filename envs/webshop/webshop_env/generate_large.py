"""Generated catalogues of any size, in the schema of WebShop's own data files.

Product i depends on the seed and on i alone, so that a catalogue can be made in parts and a larger one begins with the
smaller. Products come in families of four: the first, one that differs from it in an attribute, one in the values of an
option, and one in the price. Which of them is right is told by reading, not by searching.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from webshop_env.goalbook import LEVELS, Goal
from webshop_env.vocabulary import GROUPS
from webshop_env.vocabulary_large import ALL_CATEGORIES, BULLETS, SENTENCES, STYLES, SYLLABLES, USES

SEED = 2022
FAMILY = 4
WITH_GOALS = 8_000  # products that have goals, at most
_SIGNS = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
_STEP, _MODULUS = 982_451_653, 34**8  # coprime: every number of the catalogue gets an asin of its own
KINDS = [(category, *kind) for category in ALL_CATEGORIES for kind in category.types]


def records(products: int, seed: int = SEED, skip: int = 0) -> Iterator[tuple[dict[str, Any], int]]:
    """(record, its number + 1) of the products from number `skip` on."""
    for number in range(skip, products):
        yield record(number, seed), number + 1


def record(number: int, seed: int = SEED) -> dict[str, Any]:
    """One product; `extra` holds what items_ins_v2.json would say of it."""
    family, member = divmod(number, FAMILY)
    category, kind, usual_price, groups = KINDS[family % len(KINDS)]
    rng = random.Random(f"{seed} family {family}")
    brand = "".join(rng.choice(part) for part in SYLLABLES)
    own = rng.sample(category.attributes, 4)
    style, model = rng.choice(STYLES), f"{brand[:2].upper()}{rng.randrange(100, 999)}"
    use, other_use = rng.sample(USES, 2)
    price = min(95.0, max(5.0, round(usual_price * rng.uniform(0.5, 1.6)) + rng.choice((0.49, 0.95, 0.99)) - 1))
    chosen = {group: _values(rng, group) for group in groups}
    sentences, bullet = rng.sample(SENTENCES, 2), rng.choice(BULLETS)
    own, spare = own[:3], own[3]
    differing = rng.choice(groups)
    if member == 1:
        own[rng.randrange(3)] = spare
    elif member == 2:
        chosen[differing] = _values(rng, differing)
    elif member == 3:
        price = min(99.0, round(price * rng.uniform(1.2, 1.6), 2))
    wordy = random.Random(f"{seed} product {number}")  # noise that no two products share
    options = {group: [{"value": value, "image": None} for value in chosen[group]] for group in groups}
    pricing = f"${price:.2f}"
    if wordy.random() < 0.05:
        pricing += f"${price * wordy.uniform(1.05, 1.3):.2f}"
    return {
        "asin": asin_of(number, seed),
        "name": f"{brand} {style} {own[0]} {kind} for {use}, {own[1]}, {model}".title(),
        "category": category.name,
        "query": kind,
        "product_category": f"{category.path} \u203a {kind.title()}",
        "full_description": f"The {brand.title()} {kind} is {own[0]} and {own[1]}, for {use} and {other_use}. "
        + " ".join(wordy.sample(sentences, 2)),
        "small_description": [f"{own[2].capitalize()}: made for {use}.", f"{own[0].capitalize()} {kind}.", bullet],
        "pricing": pricing,
        "images": [""],
        "customization_options": options,
        "extra": {
            "attributes": own,
            "instruction": f"find me {own[0]}, {own[1]} {kind}",
            "instruction_attributes": own[:2],
        },
    }


def asin_of(number: int, seed: int = SEED) -> str:
    code = (number * _STEP + seed * 7_919) % _MODULUS
    signs = ""
    for _ in range(8):
        code, place = divmod(code, 34)
        signs += _SIGNS[place]
    return f"B0{signs}"


def _values(rng: random.Random, group: str) -> list[str]:
    """Three to five values of an option group, in their usual order."""
    values = GROUPS[group]
    chosen = set(rng.sample(values, rng.randint(min(3, len(values)), min(5, len(values)))))
    return [value for value in values if value in chosen]


def goal_maker(products: int) -> Any:
    """For `Source.goals`: graded goals of every product, or of every n-th where there are many."""
    from webshop_env.goals import PER_PRODUCT, make_goal

    every = max(1, -(-products // WITH_GOALS))

    def make(product: Mapping[str, Any], price: float, number: int) -> Iterable[Goal]:
        # whole families, so that near-duplicates stand against each other
        if (number // FAMILY) % every:
            return
        for level in LEVELS:
            for count in range(PER_PRODUCT[level]):
                goal = make_goal(product, price, level, count)
                if goal is not None:
                    yield goal

    return make


def write_files(folder: Path, products: int, seed: int = SEED) -> list[Path]:
    """items_shuffle.json and items_ins_v2.json of so many products, as WebShop's own lie; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "items_shuffle.json", folder / "items_ins_v2.json"]
    partial = [path.with_name(f".{path.name}.partial") for path in paths]
    with partial[0].open("w", encoding="utf-8") as items, partial[1].open("w", encoding="utf-8") as instructions:
        items.write("[")
        instructions.write("{")
        for made, number in records(products, seed):
            extra = made.pop("extra")
            comma = ",\n" if number > 1 else "\n"
            items.write(comma + json.dumps(made))
            instructions.write(f"{comma}{json.dumps(made['asin'])}: {json.dumps(extra)}")
        items.write("\n]\n")
        instructions.write("\n}\n")
    for one, path in zip(partial, paths, strict=True):
        os.replace(one, path)
    return paths


@lru_cache(maxsize=4)
def extras(products: int, seed: int = SEED) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(records, attributes by asin) in the shape that `Catalogue` takes."""
    made = [record for record, _ in records(products, seed)]
    return made, {record["asin"]: record["extra"] for record in made}
