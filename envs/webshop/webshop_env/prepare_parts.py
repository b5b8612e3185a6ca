"""Preparation, first half: records -> parts of some thousand products each, so that a stopped preparation can go on."""

from __future__ import annotations

import gc
import json
import multiprocessing
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from webshop_env.goalbook import Goal
from webshop_env.postings import Part, analyse_part
from webshop_env.records import left_out, load_product, price_of, search_text, unusable

PART = 10_000  # products
LISTED = 100  # malformed products that meta.json lists with their reason

GoalMaker = Callable[[Mapping[str, Any], float, int], Iterable[Goal]]  # product, price, its number


@dataclass
class Source:
    """Where the data come from.

    identity: what tells these data from others, stored and compared when a preparation goes on.
    records(skip): (record, position after it); attributes: what the attribute file says of a record. total: number of
    records, about, for the progress. goals: of one product. facts: more for meta.json, given the asins that there are.
    """

    identity: dict[str, Any]
    records: Callable[[int], Iterator[tuple[Any, int]]]
    attributes: Callable[[Mapping[str, Any]], Mapping[str, Any]]
    goals: GoalMaker
    total: int
    facts: Callable[[set[str]], dict[str, Any]] = lambda seen: {}


@dataclass
class Progress:
    """What is done so far; parts are complete ones only."""

    parts: list[Path] = field(default_factory=list)
    position: int = 0
    records: int = 0
    products: int = 0
    malformed: int = 0
    listed: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


def make_parts(source: Source, folder: Path, say: Callable[[int, int], None], jobs: int = 1) -> Progress:
    """Make the parts that are not there yet, in `jobs` processes. `say(records, total)` after each."""
    folder.mkdir(parents=True, exist_ok=True)
    progress = _resume(source, folder)
    with _workers(source, jobs) as submit:
        waiting: deque[tuple[Callable[[], None], int]] = deque()

        def collect() -> None:
            done, records = waiting.popleft()
            done()
            say(records, source.total)

        try:
            for batch in _batches(source, folder, progress):
                waiting.append((submit(batch), batch.records))
                if len(waiting) > jobs:
                    collect()
        finally:  # what was begun is finished, also where reading broke off
            while waiting:
                collect()
    progress.listed = [line for path in progress.parts for line in read_facts(path)["said"]][:LISTED]
    return progress


@dataclass
class Batch:
    """The records of one part, and what its facts say."""

    path: Path
    records_and_own: list[tuple[Mapping[str, Any], Mapping[str, Any]]]
    first: int  # number of its first product
    position: int
    records: int
    malformed: int
    said: list[str]


def _batches(source: Source, folder: Path, progress: Progress) -> Iterator[Batch]:
    """Reads on; `progress` is that of the reading."""
    pending: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    said: list[str] = []

    def batch() -> Batch:
        path = folder / f"part_{len(progress.parts):05d}"
        made = Batch(
            path,
            list(pending),
            progress.products,
            progress.position,
            progress.records,
            progress.malformed,
            said[:LISTED],
        )
        progress.parts.append(path)
        progress.products += len(pending)
        pending.clear()
        said.clear()
        return made

    for record, position in source.records(progress.position):
        progress.records, progress.position = progress.records + 1, position
        wrong = unusable(record)
        if wrong is None and not record["asin"].isascii():
            wrong = f"its asin {record['asin']!r:.20} is not ASCII"
        if wrong is not None:
            progress.malformed += 1
            said.append(f"record {progress.records}: {wrong}")
            continue
        asin = record["asin"]
        if left_out(asin) or asin in progress.seen:
            continue
        progress.seen.add(asin)
        pending.append((record, source.attributes(record)))
        if len(pending) == PART:
            yield batch()
    if pending or said or not progress.parts:
        yield batch()


_source: Source | None = None  # of a worker process, which has it from its parent


@contextmanager
def _workers(source: Source, jobs: int) -> Iterator[Callable[[Batch], Callable[[], None]]]:
    """A function that begins to make a part and returns one that waits for it."""
    global _source
    _source = source
    if jobs == 1 or "fork" not in multiprocessing.get_all_start_methods():

        def at_once(batch: Batch) -> Callable[[], None]:
            _save(batch)
            return lambda: None

        yield at_once
        return
    gc.freeze()  # what is there now is not looked at again: the children share it
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        yield lambda batch: pool.apply_async(_save, (batch,)).get


def _save(batch: Batch) -> None:
    source, path = _source, batch.path
    assert source is not None
    digest = blake2b(digest_size=16)
    products, prices, goals, texts = [], [], [], []
    for number, (record, own) in enumerate(batch.records_and_own, start=batch.first):
        product = load_product(record, own)
        price = price_of(product)
        prices.append(price)
        products.append(dump(product))
        texts.append(search_text(product))
        goals += [dump(goal) for goal in source.goals(product, price, number)]
        digest.update(json.dumps([record, own], sort_keys=True).encode("utf-8", "surrogatepass"))
    part = analyse_part(texts)
    arrays = {
        "asins": np.array([record["asin"] for record, _ in batch.records_and_own], dtype="S10"),
        "prices": np.array(prices, dtype=np.float64),
        "term": part.term,
        "document": part.document,
        "count": part.count,
        "lengths": part.lengths,
    }
    temporary = path.with_name(f".{path.name}.npz")
    np.savez(temporary, **arrays)  # type: ignore[arg-type]
    os.replace(temporary, path.with_suffix(".npz"))
    terms = [term.encode("utf-8", "surrogatepass") for term in part.terms]
    for name, lines in (("products", products), ("goals", goals), ("terms", terms)):
        path.with_suffix(f".{name}").write_bytes(b"".join(line + b"\n" for line in lines))
    facts = {
        "identity": source.identity, "position": batch.position, "records": batch.records, "malformed": batch.malformed,
        "said": batch.said, "products": len(products), "goals": len(goals), "digest": digest.hexdigest(),
    }  # fmt: skip
    # written last: a part without it is made again
    temporary.write_text(json.dumps(facts))
    os.replace(temporary, path.with_suffix(".json"))


def dump(value: Any) -> bytes:
    """Compact JSON on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def read_facts(path: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(path.with_suffix(".json").read_text())
    return facts


def read_lines(path: Path, name: str) -> Iterator[bytes]:
    with path.with_suffix(f".{name}").open("rb") as file:
        for line in file:
            yield line[:-1]


def read_part(path: Path) -> Part:
    """The postings of a part."""
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
        terms = [line.decode("utf-8", "surrogatepass") for line in read_lines(path, "terms")]
        return Part(terms, file["term"], file["document"], file["count"], file["lengths"])


def read_array(path: Path, name: str) -> np.ndarray:
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
        array: np.ndarray = file[name]
        return array


def _resume(source: Source, folder: Path) -> Progress:
    """The parts that are complete and of the same data, in order; others are removed."""
    progress = Progress()
    while True:
        path = folder / f"part_{len(progress.parts):05d}"
        try:
            facts = read_facts(path)
            fits = facts["identity"] == source.identity and facts["products"] == PART
        except (OSError, ValueError, KeyError):
            fits = False
        if not fits:
            break
        progress.parts.append(path)
        progress.seen.update(asin.decode() for asin in read_array(path, "asins").tolist())
        progress.position, progress.records, progress.malformed = (
            facts["position"],
            facts["records"],
            facts["malformed"],
        )
        progress.products += facts["products"]
    for other in folder.glob("*part_*"):
        if int(other.name.lstrip(".").split(".")[0].removeprefix("part_")) >= len(progress.parts):
            other.unlink()
    return progress
