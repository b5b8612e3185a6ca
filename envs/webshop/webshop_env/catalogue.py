"""Products as the environment uses them, and the one loader through which any catalogue comes in."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from webshop_env.generate import generate
from webshop_env.nouns import title_nouns
from webshop_env.search import Index

NO_PRICE = 100.0  # the original's price of a product without one
MAX_ASIN = 10


class Catalogue:
    """Products by asin, their prices, a search index over their texts and a fingerprint of the data. Read only."""

    def __init__(self, records: Iterable[Mapping[str, Any]], attributes: Mapping[str, Mapping[str, Any]]) -> None:
        """Load records of WebShop's file schema; `attributes` is keyed by asin, as in items_ins_v2.json.

        As in the original, records with asin "nan", with more than ten characters in it, or seen before are left out.
        """
        self.products: dict[str, dict[str, Any]] = {}
        digest = blake2b(digest_size=16)
        for record in records:
            asin = record["asin"]
            if asin == "nan" or len(asin) > MAX_ASIN or asin in self.products:
                continue
            self.products[asin] = load_product(record, attributes.get(asin, {}))
            digest.update(json.dumps([record, attributes.get(asin)], sort_keys=True).encode())
        self.fingerprint = digest.hexdigest()
        self.prices = {asin: _price_of(product) for asin, product in self.products.items()}
        self.index = Index.build(list(self.products), [search_text(p) for p in self.products.values()])
        self.search = lru_cache(maxsize=4096)(self._search)

    def __len__(self) -> int:
        return len(self.products)

    def _search(self, query: str, k: int) -> tuple[str, ...]:
        return tuple(asin for asin, _ in self.index.search(query, k))


@lru_cache(maxsize=1)
def embedded() -> Catalogue:
    """The generated catalogue that comes with the package, built once per process."""
    return Catalogue(*generate())


def load_product(record: Mapping[str, Any], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """A record of the product file, cleaned as the original does, with the nouns of its title stored."""
    bullets = record["small_description"]
    prices = [float(re.sub(r"[^\d.]", "", part)) for part in (record.get("pricing") or "").split("$")[1:]]
    prices = prices[:2] or [NO_PRICE]
    options = {
        name.lower(): [content["value"].strip().replace("/", " | ").lower() for content in contents]
        for name, contents in (record["customization_options"] or {}).items()
        if contents is not None
    }
    return {
        "asin": record["asin"],
        "name": record["name"],
        "Title": record["name"],
        "category": record["category"],
        "query": record["query"].lower().strip(),
        "product_category": record["product_category"],
        "Description": record["full_description"],
        "BulletPoints": bullets if isinstance(bullets, list) else [bullets],
        "pricing": prices,
        "Price": " to ".join(f"${price}" for price in prices),
        "options": options,
        "Attributes": attributes.get("attributes", ["DUMMY_ATTR"]),
        "Rating": "N.A.",
        "Reviews": [],
        "nouns": title_nouns(record["name"]),
    }


def search_text(product: Mapping[str, Any]) -> str:
    """What is indexed of a product: title, description, first feature and options, in lower case."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product["options"].items())
    feature = product["BulletPoints"][0] if product["BulletPoints"] else ""
    return " ".join([product["Title"], product["Description"], feature, options]).lower()


def _price_of(product: Mapping[str, Any]) -> float:
    """The price paid. Of a range the original draws one at random in each process; here the asin seeds the draw."""
    prices: list[float] = product["pricing"]
    return prices[0] if len(prices) == 1 else random.Random(product["asin"]).uniform(*prices)
