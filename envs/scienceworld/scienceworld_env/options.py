"""The options of the environment, checked in one place."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from scienceworld_env.catalogue import NEEDS_CIRCUITS, PLANPO, SPLITS, TASKS

SIMPLIFICATIONS = ("teleportAction", "selfWateringFlowerPots", "openContainers", "openDoors", "noElectricalAction")
NUMBERS = {task.number: name for name, task in TASKS.items()}


@dataclass(frozen=True)
class Options:
    """See ScienceWorldEnv; `tasks` and `simplifications` as tuples of names."""

    tasks: tuple[str, ...] = PLANPO
    simplifications: tuple[str, ...] = ("easy",)
    valid_actions: bool = False
    max_variations: int | None = None
    split: str = "train"


NAMES = tuple(field.name for field in fields(Options))


def parse_options(given: dict[str, Any]) -> Options:
    """The options, complete. Raises ValueError, naming the option, the value and what is allowed."""
    for name in given:
        if name not in NAMES:
            raise ValueError(f"ScienceWorld has no option {name!r}: {_hint(name, NAMES, 'known options are')}")
    values = {**{name: getattr(Options, name) for name in NAMES}, **given}
    tasks = _tasks(values["tasks"])
    simplifications = _simplifications(values["simplifications"])
    circuits = [name for name in tasks if name in NEEDS_CIRCUITS]
    if "noElectricalAction" in simplifications and circuits:
        raise ValueError(
            f"simplifications has 'noElectricalAction', but the task {circuits[0]!r} needs electrical actions: "
            "leave one of the two out ('easy' keeps them where a task needs them)."
        )
    if not isinstance(values["valid_actions"], bool):
        raise ValueError(f"valid_actions is {values['valid_actions']!r}: give true or false.")
    most = values["max_variations"]
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        raise ValueError(f"max_variations is {most!r}: give a whole number of at least 1, or none for all.")
    check_split(values["split"])
    return Options(tasks, simplifications, values["valid_actions"], most, values["split"])


def check_split(split: Any) -> None:
    """ValueError for an unknown split."""
    if split not in SPLITS:
        hint = " (the dev set is called validation here)" if split == "dev" else ""
        raise ValueError(f"split {split!r} does not exist: choose one of {', '.join(SPLITS)}{hint}.")


def _tasks(given: Any) -> tuple[str, ...]:
    """ "all", "planpo", or names or numbers (3-3) as a list or with commas between; in the engine's order."""
    if given == "all":
        return tuple(TASKS)
    if given == "planpo":
        return PLANPO
    named = [NUMBERS.get(name, name) for name in _words("tasks", given, "'all', 'planpo' or names of tasks")]
    for name in named:
        if name not in TASKS:
            raise ValueError(f"tasks has {name!r}, which is no task: {_hint(name, TASKS, 'choose from')}")
    return tuple(name for name in TASKS if name in named)


def _simplifications(given: Any) -> tuple[str, ...]:
    """ "easy" alone, or some of the five; none for the full game."""
    if given in (None, "", "none") or given in ((), []):
        return ()
    named = _words("simplifications", given, "'easy', 'none' or names of simplifications")
    known = ("easy", *SIMPLIFICATIONS)
    for name in named:
        if name not in known:
            raise ValueError(
                f"simplifications has {name!r}, which is no simplification: {_hint(name, known, 'choose from')}"
            )
    return ("easy",) if "easy" in named else tuple(name for name in SIMPLIFICATIONS if name in named)


def _words(option: str, given: Any, allowed: str) -> list[str]:
    words: Iterable[Any] = given
    if isinstance(given, str):
        words = [word.strip() for word in given.split(",")]
    elif not isinstance(given, list | tuple):
        raise ValueError(f"{option} is {given!r}: give {allowed}.")
    names = [word for word in words if isinstance(word, str) and word]
    if not names or len(names) != len(list(words)):
        raise ValueError(f"{option} is {given!r}: give {allowed}.")
    return names


def _hint(name: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]!r}?" if near else f"{otherwise} {', '.join(known)}."
