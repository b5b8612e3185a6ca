"""Options of the environment, and the games that they choose."""

from __future__ import annotations

import difflib
import os
import shlex
from dataclasses import dataclass, fields
from functools import cache
from hashlib import blake2b
from typing import Any

from alfworld_env.generate import GENERATOR, SIZES, SPLITS, TASK_TYPES, Game, game_of
from alfworld_env.public import public_game, public_games

ALIASES = {"valid_seen": "validation", "valid_unseen": "test"}
ANCHORS = ("state", "feedback")
NAMED = 3  # of the games that are left out, in a warning


@dataclass(frozen=True)
class Options:
    """See AlfworldEnv."""

    data_dir: str = ""
    size: str = "full"
    task_types: tuple[str, ...] = TASK_TYPES
    anchor: str = "state"
    split: str = "train"
    tasks: int = SPLITS["train"][1]
    cache_dir: str = ""

    def __post_init__(self) -> None:
        for name, allowed in (("size", SIZES), ("anchor", ANCHORS), ("split", (*SPLITS, *ALIASES))):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}: choose one of {', '.join(allowed)}.")
        for name in ("data_dir", "cache_dir"):
            if not isinstance(getattr(self, name), str):
                raise ValueError(f"{name} is {getattr(self, name)!r}: give a folder.")
        most = SPLITS["train"][1]
        if isinstance(self.tasks, bool) or not isinstance(self.tasks, int) or not 6 <= self.tasks <= most:
            raise ValueError(f"tasks is {self.tasks!r}: give the number of training games, from 6 to {most}.")
        # parse_options has made a tuple of a list; a dictionary would pass for a list of its keys
        if not isinstance(self.task_types, tuple) or not self.task_types:
            raise ValueError(f"task_types is {self.task_types!r}: give a list of {', '.join(TASK_TYPES)}.")
        for kind in self.task_types:
            if kind not in TASK_TYPES:
                raise ValueError(f"task_types holds {kind!r}: known are {', '.join(TASK_TYPES)}.")

    @property
    def data(self) -> str:
        """The folder of public games, or "" for generated ones: `data_dir`, else ALFWORLD_DATA; "generated" is none."""
        chosen = self.data_dir or os.environ.get("ALFWORLD_DATA", "")
        return "" if chosen == "generated" else chosen


def parse_options(given: dict[str, Any]) -> Options:
    """ValueError for an unknown option, naming the nearest, and for a value that is not allowed."""
    names = [field.name for field in fields(Options)]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known options are {', '.join(names)}."
            raise ValueError(f"ALFWorld has no option {name!r}: {hint}")
    given = dict(given)
    if isinstance(given.get("task_types"), list | tuple):
        given["task_types"] = tuple(given["task_types"])
    return Options(**given)


@dataclass(frozen=True)
class Games:
    """The games of one split in their fixed order, and a fingerprint of what they are made of.

    That of public games begins with the version of the data ("alfworld-0.4-"): a run records it. `warning` is one
    sentence about games that should be there and cannot be played, or "".
    """

    ids: list[str]
    fingerprint: str
    warning: str = ""


@cache
def games(options: Options, split: str) -> Games:
    """The games of a split. ValueError for an unknown split, and for public data that is missing or unusable."""
    split = ALIASES.get(split, split)
    if split not in SPLITS:
        raise ValueError(f"split {split!r} does not exist: choose one of {', '.join((*SPLITS, *ALIASES))}.")
    if options.data:
        found = public_games(options.data, split)
        ids = [name for name, kind in zip(found.ids, found.types, strict=True) if kind in options.task_types]
        made_of = _digest(f"{found.fingerprint} {options.task_types}")
        return Games(ids, f"alfworld-{found.version}-{made_of}", _warning(options.data, split, found.faulty))
    count = options.tasks if split == "train" else SPLITS[split][1]
    kinds = ((number, TASK_TYPES[number % len(TASK_TYPES)]) for number in range(count))
    ids = [f"{split}/{kind}/{number:06d}" for number, kind in kinds if kind in options.task_types]
    made_of = f"{GENERATOR} {split} {options.size} {options.tasks} {options.task_types}"
    return Games(ids, _digest(made_of))


def _digest(made_of: str) -> str:
    return blake2b(made_of.encode(), digest_size=16).hexdigest()


def _warning(data_dir: str, split: str, faulty: list[tuple[str, str]]) -> str:
    if not faulty:
        return ""
    first = ", ".join(f"{name}: {reason}" for name, reason in faulty[:NAMED])
    return (
        f"ALFWorld leaves out {len(faulty)} games of {split} in {data_dir} ({first}{', ...' if len(faulty) > NAMED else ''}); "
        f"`python -m alfworld_env check {shlex.quote(data_dir)}` shows all."
    )


def game(options: Options, task_id: str) -> Game:
    """The game of a task id. ValueError if there is none."""
    if options.data:
        return public_game(options.data, task_id)
    parts = task_id.split("/")
    if len(parts) == 3 and parts[0] in SPLITS and parts[2].isascii() and parts[2].isdigit() and len(parts[2]) == 6:
        split, kind, number = parts[0], parts[1], int(parts[2])
        count = options.tasks if split == "train" else SPLITS[split][1]
        if number < count and kind == TASK_TYPES[number % len(TASK_TYPES)]:
            return game_of(split, number, options.size)
    raise ValueError(
        f"task_id {task_id!r} does not exist: use an id that tasks(split) lists, such as "
        "'train/pick_and_place_simple/000000'."
    )
