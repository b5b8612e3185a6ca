"""What a book of goals has in common, wherever the goals lie: splits, levels, tasks."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Protocol

SPLITS = ("train", "validation", "test")
LEVELS = ("easy", "medium", "hard")
NO_LIMIT = 1_000_000

Goal = dict[str, Any]  # the original's keys, and: difficulty, nouns, identity


@dataclass(frozen=True)
class Tasks:
    """The tasks of one split in their fixed order, and the fingerprint of the catalogue and goals they come from."""

    ids: list[str]
    fingerprint: str


class Goals(Protocol):
    """What the environment asks of a book of goals."""

    fingerprint: str

    @property
    def tasks(self) -> Callable[[str, tuple[str, ...]], Tasks]: ...

    def goal(self, task_id: str) -> Goal: ...


def check_split(split: str, known: Container[str]) -> None:
    """ValueError for a split that is not there."""
    if split not in known:
        raise ValueError(f"split {split!r} does not exist: choose one of {', '.join(SPLITS)}.")
