"""Preparation, second half: parts -> the mapped files of a store, meta.json last."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any

import numpy as np

from webshop_env import mapped, store
from webshop_env.goalbook import LEVELS, SPLITS
from webshop_env.instructions import published_splits, weigh
from webshop_env.postings import merge
from webshop_env.prepare_parts import Progress, dump, read_array, read_facts, read_lines, read_part
from webshop_env.search import largest_weights


def make_store(
    progress: Progress, out: Path, facts: dict[str, Any], published: bool, say: Callable[[str], None]
) -> None:
    """Write the files of `out` from the parts. published: goals are split as the original does it, by place."""
    (out / store.META).unlink(missing_ok=True)
    digest = blake2b(digest_size=16)
    for path in progress.parts:
        digest.update(read_facts(path)["digest"].encode())
    fingerprint = digest.hexdigest()
    made: list[Path] = []

    def create(name: str, size: int, dtype: Any) -> np.ndarray:
        made.append(out / f"{name}.bin")
        return mapped.create(made[-1], size, dtype)

    say("products")
    asins = np.concatenate([read_array(path, "asins") for path in progress.parts])
    create("asins", len(asins), "S10")[:] = asins
    order = np.argsort(asins, kind="stable")
    create("sorted_asins", len(asins), "S10")[:] = asins[order]
    create("sorted_numbers", len(asins), np.int32)[:] = order
    rank = create("rank", len(asins), np.int32)
    rank[order] = np.arange(len(asins), dtype=np.int32)
    prices = create("prices", len(asins), np.float64)
    prices[:] = np.concatenate([read_array(path, "prices") for path in progress.parts])
    _texts(create, "products", lambda: (line for path in progress.parts for line in read_lines(path, "products")))
    say("search index")
    merged = merge(lambda: map(read_part, progress.parts), create)
    create("postings_starts", len(merged.starts), np.int64)[:] = merged.starts
    create("largest", len(merged.terms), np.float32)[:] = largest_weights(merged.starts, merged.weights)
    _texts(create, "terms", lambda: (term.encode("utf-8", "surrogatepass") for term in merged.terms))
    say("goals")
    goals_facts = _goals(progress, create, published, facts["source"].get("goals") == "synthetic")
    for path in made:
        mapped.stamp(path, fingerprint)
    say("checksums")
    meta = {
        "version": store.VERSION,
        "fingerprint": fingerprint,
        "products": len(asins),
        "terms": len(merged.terms),
        **facts,
        **goals_facts,
        "goals_fingerprint": blake2b(
            f"{fingerprint} {goals_facts['goals_digest']}".encode(), digest_size=16
        ).hexdigest(),
        "records": progress.records,
        "malformed": progress.malformed,
        "malformed_listed": progress.listed,
        "splits": list(SPLITS),
        "files": {path.name: _checksum(path) for path in made},
    }
    temporary = out / f".{store.META}"
    temporary.write_text(json.dumps(meta, indent=1))
    os.replace(temporary, out / store.META)


def check_files(out: Path) -> list[str]:
    """What is wrong with the files of a store, by their checksums; [] when nothing is."""
    meta = store.read_meta(out)
    wrong = []
    for name, expected in meta["files"].items():
        path = out / name
        if not path.is_file():
            wrong.append(f"{path}: the file is missing")
        elif path.stat().st_size != expected["bytes"]:
            wrong.append(f"{path}: it has {path.stat().st_size} bytes instead of {expected['bytes']}")
        elif _checksum(path) != expected:
            wrong.append(f"{path}: it has changed since it was written")
    return wrong


def _texts(create: Callable[[str, int, Any], np.ndarray], name: str, lines: Callable[[], Iterable[bytes]]) -> None:
    starts = np.concatenate([[0], np.cumsum(np.fromiter(map(len, lines()), dtype=np.int64))]).astype(np.int64)
    create(f"{name}_starts", len(starts), np.int64)[:] = starts
    whole = create(name, int(starts[-1]), np.uint8)
    for number, line in enumerate(lines()):
        whole[starts[number] : starts[number + 1]] = np.frombuffer(line, dtype=np.uint8)


def _goals(
    progress: Progress, create: Callable[[str, int, Any], np.ndarray], published: bool, synthetic: bool
) -> dict[str, Any]:
    """Goals in the order of the products, their levels, and which goal is which of a split."""
    lines = [line for path in progress.parts for line in read_lines(path, "goals")]
    goals = [json.loads(line) for line in lines]
    if synthetic and goals:
        for goal, weight in zip(goals, weigh([goal["attributes"] for goal in goals]), strict=True):
            goal["weight"] = weight
        lines = [dump(goal) for goal in goals]
    if published:
        splits = published_splits(len(goals))
        kept, unsolvable = list(range(len(goals))), sum(not goal.get("solvable", True) for goal in goals)
    else:
        kept, doubles = [], set()
        for number, goal in enumerate(goals):
            wish = goal["instruction_text"]
            if goal.get("solvable", True) and wish not in doubles:
                doubles.add(wish)
                kept.append(number)
        unsolvable = len(goals) - len(kept)
        splits = _by_identity([goals[number]["identity"] for number in kept])
    _texts(create, "goals", lambda: (lines[number] for number in kept))
    levels = np.array([LEVELS.index(goals[number]["difficulty"]) for number in kept], dtype=np.int8)
    create("goal_levels", len(kept), np.int8)[:] = levels
    digest = blake2b(digest_size=16)
    for split in SPLITS:
        create(f"goals_{split}", len(splits[split]), np.int32)[:] = np.array(splits[split], dtype=np.int32)
        for number in splits[split]:
            digest.update(lines[kept[number]])
        digest.update(split.encode())
    return {
        "goals": len(kept),
        "goals_left_out" if not published else "goals_unsolvable": unsolvable,
        "goals_digest": digest.hexdigest(),
        "split": "published" if published else "identity",
        "goals_by_split": {split: len(numbers) for split, numbers in splits.items()},
    }


def _by_identity(identities: list[str]) -> dict[str, list[int]]:
    """A tenth of the identities for test and for validation each, in an order that depends on nothing else."""
    place = {identity: blake2b(identity.encode(), digest_size=16).digest() for identity in set(identities)}
    ordered = sorted(place, key=place.__getitem__)
    tenth = max(1, len(ordered) // 10) if len(ordered) >= len(SPLITS) else 0
    part = dict.fromkeys(ordered[:tenth], "test") | dict.fromkeys(ordered[tenth : 2 * tenth], "validation")
    splits: dict[str, list[int]] = {split: [] for split in SPLITS}
    for number in sorted(range(len(identities)), key=lambda n: (place[identities[n]], n)):
        splits[part.get(identities[number], "train")].append(number)
    return splits


def _checksum(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": file_digest(file, "sha256").hexdigest()}
