"""PDDL problems as Fast Downward takes them, each translated once: in memory (bounded) and on disk.

The translation of a kitchen takes 0.2 to 0.5 s; from the disk it takes milliseconds.
"""

from __future__ import annotations

import gzip
import json
import os
import sys
import tempfile
from collections import Counter, OrderedDict
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from alfworld_env.grammar import PARSING

VERSION = 1
IN_MEMORY = 64


class PddlError(ValueError):
    """A PDDL problem cannot be translated."""


@dataclass(frozen=True)
class Translated:
    """A problem: Fast Downward's text, parameters of each action [(placeholder, type)], types of entities, the facts
    before the first action, and the name of each entity in texts ("mug 2")."""

    sas: bytes
    parameters: dict[str, list[tuple[str, str]]]
    types: dict[str, str]
    facts: list[tuple[str, ...]]
    names: dict[str, str]


_memory: OrderedDict[str, Translated] = OrderedDict()


def translated(domain: str, problem: str, cache_dir: str | None = None) -> Translated:
    """The translation of a problem. Raises PddlError where it cannot be read."""
    key = blake2b(f"{VERSION}\0{domain}\0{problem}".encode(), digest_size=16).hexdigest()
    with PARSING:
        found = _memory.get(key)
        if found is None:
            path = Path(cache_dir or default_cache()) / f"{key}.json.gz"
            found = _read(path)
            if found is None:
                found = _translate(domain, problem)
                _write(path, found)
            _memory[key] = found
        _memory.move_to_end(key)
        while len(_memory) > IN_MEMORY:
            _memory.popitem(last=False)
        return found


def default_cache() -> str:
    """$XDG_CACHE_HOME/alfworld_env, or ~/.cache/alfworld_env."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "alfworld_env")


def entity_names(ids: set[str]) -> dict[str, str]:
    """The names in texts: the type and a number that counts down over the sorted ids (as ALFWorld's Demangler)."""
    kinds = {entity: _kind(entity) for entity in ids}
    left = Counter(kind for kind in kinds.values() if kind is not None)
    names = {}
    for entity in sorted(ids):
        kind = kinds[entity]
        if kind is None:
            names[entity] = f"{entity} "
        else:
            names[entity] = f"{kind} {left[kind]}"
            left[kind] -= 1
    return names


def _kind(entity: str) -> str | None:
    kind, bar, _ = entity.partition("_bar_")
    return None if not bar else kind + ("basin" if "basin" in entity else "")


def _translate(domain: str, problem: str) -> Translated:
    argv, out = sys.argv, sys.stdout  # pddl2sas sets the first for good and swaps the second
    try:
        import fast_downward

        task, sas = fast_downward.pddl2sas(domain, problem)
    except (Exception, SystemExit) as error:
        raise PddlError(
            f"the PDDL problem cannot be translated ({type(error).__name__}: {str(error)[:200]})"
        ) from error
    finally:
        sys.argv, sys.stdout = argv, out
    types = {entity.name: entity.type_name for entity in task.objects}
    facts = [(atom.predicate, *atom.args) for atom in task.init if hasattr(atom, "predicate") and atom.predicate != "="]
    return Translated(
        sas.encode(),
        {action.name: [(p.name.strip("?"), p.type_name) for p in action.parameters] for action in task.actions},
        types,
        facts,
        # as ALFWorld counts: what no fact mentions has no number
        {**{entity: entity for entity in types}, **entity_names({entity for _, *args in facts for entity in args})},
    )


def _read(path: Path) -> Translated | None:
    try:
        data: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
        parameters = {name: [(p, kind) for p, kind in pairs] for name, pairs in data["parameters"].items()}
        facts = [tuple(fact) for fact in data["facts"]]
        return Translated(data["sas"].encode(), parameters, data["types"], facts, data["names"])
    except FileNotFoundError:
        return None
    except (OSError, EOFError, ValueError, KeyError, TypeError):
        return None  # half-written by a machine that died, or not ours: made anew


def _write(path: Path, found: Translated) -> None:
    data = {**found.__dict__, "sas": found.sas.decode()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
        with os.fdopen(handle, "wb") as file:
            file.write(gzip.compress(json.dumps(data).encode(), 3))
        os.replace(name, path)
    except OSError:
        pass  # a read-only or full disk: the cache only saves time
