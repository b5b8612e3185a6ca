"""A catalogue prepared on disk (`webshop_env.prepare`): mapped, so that it costs each process next to nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np

from webshop_env.goalbook import Goal, Tasks, check_split
from webshop_env.mapped import SortedTerms, StoreError, Texts, open_array
from webshop_env.search import Index

VERSION = 1
META = "meta.json"
HELD = 1024  # products, goals and searches that a process keeps


class StoredProducts(Mapping[str, Mapping[str, Any]]):
    """Products by asin, parsed when asked for."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.asins = open_array(folder / "asins.bin", fingerprint)
        self._sorted = open_array(folder / "sorted_asins.bin", fingerprint)
        self._numbers = open_array(folder / "sorted_numbers.bin", fingerprint)
        self._texts = Texts(folder, "products", fingerprint)
        self._held = lru_cache(maxsize=HELD)(self._parsed)

    def __len__(self) -> int:
        return len(self.asins)

    def __iter__(self) -> Iterator[str]:
        return (asin.decode() for asin in self.asins)

    def __getitem__(self, asin: str) -> Mapping[str, Any]:
        return self._held(asin)

    def number(self, asin: str) -> int:
        """Place of an asin in the catalogue. KeyError if it is not there."""
        try:
            wanted = np.bytes_(asin.encode("ascii"))
        except UnicodeEncodeError:
            raise KeyError(asin) from None
        place = int(np.searchsorted(self._sorted, wanted))
        if place == len(self._sorted) or self._sorted[place] != wanted:
            raise KeyError(asin)
        return int(self._numbers[place])

    def _parsed(self, asin: str) -> Mapping[str, Any]:
        product: Mapping[str, Any] = json.loads(self._texts.raw(self.number(asin)))
        return product


class StoredPrices(Mapping[str, float]):
    def __init__(self, products: StoredProducts, folder: Path, fingerprint: str) -> None:
        self._products = products
        self._prices = open_array(folder / "prices.bin", fingerprint)

    def __len__(self) -> int:
        return len(self._prices)

    def __iter__(self) -> Iterator[str]:
        return iter(self._products)

    def __getitem__(self, asin: str) -> float:
        return float(self._prices[self._products.number(asin)])


class _Asins(Sequence[str]):
    def __init__(self, products: StoredProducts) -> None:
        self._asins = products.asins

    def __len__(self) -> int:
        return len(self._asins)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [asin.decode() for asin in self._asins[number]]
        return str(self._asins[number].decode())


class StoredCatalogue:
    """The interface of `Catalogue` over a prepared folder; hashable, so that renderers can be shared."""

    def __init__(self, folder: Path) -> None:
        """StoreError for a folder that holds no prepared store, a damaged one, or files of another catalogue."""
        self.folder = folder
        self.meta = read_meta(folder)
        of = self.fingerprint = str(self.meta["fingerprint"])
        self.products = StoredProducts(folder, of)
        self.prices = StoredPrices(self.products, folder, of)
        arrays = (open_array(folder / f"{name}.bin", of) for name in ("documents", "weights", "rank"))
        self.index = Index(_Asins(self.products), SortedTerms(folder, of), *arrays)
        if not len(self.products) == len(self.index) == self.meta["products"]:
            raise StoreError(f"{folder}: products and index differ in number; prepare the data again.")
        self.search = lru_cache(maxsize=HELD)(self._search)

    def __len__(self) -> int:
        return len(self.products)

    def _search(self, query: str, k: int) -> tuple[str, ...]:
        return tuple(asin for asin, _ in self.index.search(query, k))


class StoredGoals:
    """The interface of `GoalBook` over a prepared folder."""

    def __init__(self, catalogue: StoredCatalogue) -> None:
        folder, of = catalogue.folder, catalogue.fingerprint
        self._texts = Texts(folder, "goals", of)
        self._level = open_array(folder / "goal_levels.bin", of)
        self._splits = {split: open_array(folder / f"goals_{split}.bin", of) for split in catalogue.meta["splits"]}
        self.fingerprint = str(catalogue.meta["goals_fingerprint"])
        self._held = lru_cache(maxsize=HELD)(self._goal)
        self.tasks = lru_cache(maxsize=32)(self._tasks)

    def _tasks(self, split: str, levels: tuple[str, ...]) -> Tasks:
        check_split(split, self._splits)
        from webshop_env.goalbook import LEVELS

        wanted = np.isin(self._level[self._splits[split]], [LEVELS.index(level) for level in levels])
        return Tasks([f"{split}/{number:06d}" for number in np.flatnonzero(wanted).tolist()], self.fingerprint)

    def goal(self, task_id: str) -> Goal:
        """As `GoalBook.goal`."""
        split, _, number = str(task_id).partition("/")
        goals = self._splits.get(split, ())
        if not (number.isascii() and number.isdigit() and int(number) < len(goals)):
            raise ValueError(
                f"task_id {task_id!r} does not exist: use an id that tasks(split) lists, such as 'train/000000'."
            )
        return self._held(int(goals[int(number)]))

    def _goal(self, number: int) -> Goal:
        goal: Goal = json.loads(self._texts.raw(number))
        return goal


def read_meta(folder: Path) -> dict[str, Any]:
    """meta.json, which is written last. StoreError when there is none, or when another version wrote it."""
    try:
        meta: dict[str, Any] = json.loads((folder / META).read_text(encoding="utf-8"))
        version = meta["version"]
    except FileNotFoundError:
        begun = (
            " it was begun and not finished: give the same command again, it goes on."
            if (folder / "parts").is_dir()
            else ""
        )
        raise StoreError(
            f"{folder}: no prepared store there ({META} is missing);{begun} prepare it by "
            "`python -m webshop_env.prepare --data-dir FOLDER`."
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{folder / META}: it cannot be read; prepare the data again.") from None
    if version != VERSION:
        raise StoreError(
            f"{folder}: it was prepared by another version ({version}, this one reads {VERSION}); prepare the data again."
        )
    return meta


@lru_cache(maxsize=8)
def open_store(folder: Path) -> tuple[StoredCatalogue, StoredGoals]:
    """The catalogue and the goals of a prepared folder, opened once per process."""
    catalogue = StoredCatalogue(folder)
    return catalogue, StoredGoals(catalogue)
