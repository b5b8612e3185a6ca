"""The mini catalogue: generated products in the schema of WebShop's own data files; and the command that writes a large one.

python -m webshop_env.generate --products N --out FOLDER       items_shuffle.json and items_ins_v2.json of N products

`generate(seed)` returns what the original reads from items_shuffle.json and items_ins_v2.json: a list of product
records, and for each asin its attributes and instruction. Products of one type differ in brand, attributes, options
and price, so that finding the right one takes reading.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import Any

from webshop_env.vocabulary import BRANDS, CATEGORIES, GROUPS, Category

CATALOGUE_SEED = 2022
PER_TYPE = 20
_ASIN_SIGNS = "0123456789ABCDEFGHJKLMNPQRSTUVWXYZ"
_USES = ["home", "travel", "work", "gifts", "school", "summer", "winter", "parties"]


def generate(seed: int = CATALOGUE_SEED, per_type: int = PER_TYPE) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(products, attributes by asin), the same for a seed on every machine and Python version in use."""
    rng = random.Random(seed)
    products: list[dict[str, Any]] = []
    attributes: dict[str, Any] = {}
    taken: set[str] = set()
    for category in CATEGORIES:
        for kind, usual_price, groups in category.types:
            brands = rng.sample(BRANDS, min(per_type, len(BRANDS)))
            for number in range(per_type):
                asin = _new_asin(rng, taken)
                brand = brands[number % len(brands)]
                own = rng.sample(category.attributes, 3)
                products.append(_product(rng, asin, brand, category, kind, usual_price, groups, own))
                attributes[asin] = {
                    "attributes": own,
                    "instruction": f"find me {own[0]}, {own[1]} {kind}",
                    "instruction_attributes": own[:2],
                }
    # as in the original file, products of one type are not neighbours
    rng.shuffle(products)
    return products, attributes


def _product(
    rng: random.Random, asin: str, brand: str, category: Category, kind: str, usual_price: int,
    groups: tuple[str, ...], own: list[str],
) -> dict[str, Any]:  # fmt: skip
    """One record. Two attributes stand in the title, the third only among the features."""
    price = min(100.0, max(5.0, round(usual_price * rng.uniform(0.5, 1.7)) + rng.choice((0.49, 0.95, 0.99)) - 1))
    use, other_use = rng.sample(_USES, 2)
    options = {}
    for group in groups:
        values = GROUPS[group]
        count = rng.randint(min(3, len(values)), min(5, len(values)))
        chosen = set(rng.sample(values, count))
        options[group] = [{"value": value, "image": None} for value in values if value in chosen]
    return {
        "asin": asin,
        "name": f"{brand} {own[0]} {kind} with {own[1]}".title(),
        "category": category.name,
        "query": kind,
        "product_category": f"{category.path} \u203a {kind.title()}",
        "full_description": f"The {brand.title()} {kind} is {own[0]} and {own[1]}, for {use} and {other_use}.",
        "small_description": [f"{own[2].capitalize()}: made for {use}.", f"{own[0].capitalize()} {kind}."],
        "pricing": f"${price:.2f}",
        "images": [""],
        "customization_options": options,
    }


def _new_asin(rng: random.Random, taken: set[str]) -> str:
    while True:
        asin = "B0" + "".join(rng.choices(_ASIN_SIGNS, k=8))
        if asin not in taken:
            taken.add(asin)
            return asin


def main(words: list[str] | None = None) -> int:
    """Returns the exit status: 0 done, 2 refused."""
    from webshop_env.generate_large import write_files
    from webshop_env.prepare import MAX_GENERATED

    parser = argparse.ArgumentParser(prog="python -m webshop_env.generate", description="Write a generated catalogue.")
    parser.add_argument("--products", type=int, required=True, help=f"1 to {MAX_GENERATED:,}")
    parser.add_argument("--out", type=Path, required=True, help="a folder")
    parser.add_argument("--seed", type=int, default=CATALOGUE_SEED)
    given = parser.parse_args(words)
    if not 1 <= given.products <= MAX_GENERATED:
        print(f"webshop_env: --products {given.products}: give a number from 1 to {MAX_GENERATED}.", file=sys.stderr)
        return 2
    try:
        paths = write_files(given.out, given.products, given.seed)
    except OSError as error:
        print(f"webshop_env: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    print(
        f"{given.products:,} products: {', '.join(map(str, paths))}; next: python -m webshop_env.prepare --data-dir {given.out}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
