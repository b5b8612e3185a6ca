"""A catalogue in memory: products, prices, search. What lies prepared on disk has the same interface (`store`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Protocol

from webshop_env.generate import generate
from webshop_env.records import left_out, load_product, price_of, search_text
from webshop_env.search import Index


class Products(Protocol):
    """What the environment asks of a catalogue. Read only; one may serve many environments."""

    fingerprint: str

    @property
    def products(self) -> Mapping[str, Mapping[str, Any]]:
        """By asin, in the order of the file."""

    @property
    def prices(self) -> Mapping[str, float]: ...

    @property
    def search(self) -> Callable[[str, int], tuple[str, ...]]:
        """(query, number of results) -> asins, best first."""

    def __hash__(self) -> int: ...


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
            if left_out(asin) or asin in self.products:
                continue
            self.products[asin] = load_product(record, attributes.get(asin, {}))
            digest.update(json.dumps([record, attributes.get(asin)], sort_keys=True).encode())
        self.fingerprint = digest.hexdigest()
        self.prices = {asin: price_of(product) for asin, product in self.products.items()}
        self.index = Index.build(list(self.products), [search_text(p) for p in self.products.values()])
        self.search = lru_cache(maxsize=4096)(self._search)

    def __len__(self) -> int:
        return len(self.products)

    def _search(self, query: str, k: int) -> tuple[str, ...]:
        return tuple(asin for asin, _ in self.index.search(query, k))


@lru_cache(maxsize=1)
def mini() -> Catalogue:
    """A small generated catalogue (1,400 products, 14 categories), built in memory once per process."""
    return Catalogue(*generate())
