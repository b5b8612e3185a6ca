"""The 30 tasks, their published variations, and which of them belong to which split."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from scienceworld_env.java import ENGINE


@dataclass(frozen=True)
class Task:
    """One of the engine's tasks. Variations 0 to train-1 are its training set, then come dev, then test."""

    name: str
    number: str  # as in the ScienceWorld paper
    train: int
    dev: int
    test: int

    def variations(self, split: str) -> range:
        first = {"train": 0, "validation": self.train, "test": self.train + self.dev}[split]
        return range(first, first + {"train": self.train, "validation": self.dev, "test": self.test}[split])


SPLITS = ("train", "validation", "test")

# name, number, variations of the engine's train, dev and test sets (a test compares them with the engine)
TASKS = {
    name: Task(name, number, *sizes)
    for name, number, *sizes in (
        ("boil", "1-1", 14, 7, 9),
        ("melt", "1-2", 14, 7, 9),
        ("freeze", "1-3", 14, 7, 9),
        ("change-the-state-of-matter-of", "1-4", 14, 7, 9),
        ("use-thermometer", "2-1", 270, 135, 135),
        ("measure-melting-point-known-substance", "2-2", 218, 109, 109),
        ("measure-melting-point-unknown-substance", "2-3", 150, 75, 75),
        ("power-component", "3-1", 10, 5, 5),
        ("power-component-renewable-vs-nonrenewable-energy", "3-2", 10, 5, 5),
        ("test-conductivity", "3-3", 450, 225, 225),
        ("test-conductivity-of-unknown-substances", "3-4", 300, 150, 150),
        ("find-living-thing", "4-1", 150, 75, 75),
        ("find-non-living-thing", "4-2", 150, 75, 75),
        ("find-plant", "4-3", 150, 75, 75),
        ("find-animal", "4-4", 150, 75, 75),
        ("grow-plant", "5-1", 62, 31, 33),
        ("grow-fruit", "5-2", 62, 31, 33),
        ("chemistry-mix", "6-1", 16, 8, 8),
        ("chemistry-mix-paint-secondary-color", "6-2", 18, 9, 9),
        ("chemistry-mix-paint-tertiary-color", "6-3", 18, 9, 9),
        ("lifespan-longest-lived", "7-1", 62, 31, 32),
        ("lifespan-shortest-lived", "7-2", 62, 31, 32),
        ("lifespan-longest-lived-then-shortest-lived", "7-3", 62, 31, 32),
        ("identify-life-stages-1", "8-1", 6, 3, 5),
        ("identify-life-stages-2", "8-2", 4, 2, 4),
        ("inclined-plane-determine-angle", "9-1", 84, 42, 42),
        ("inclined-plane-friction-named-surfaces", "9-2", 692, 346, 348),
        ("inclined-plane-friction-unnamed-surfaces", "9-3", 80, 40, 42),
        ("mendelian-genetics-known-plant", "10-1", 60, 30, 30),
        ("mendelian-genetics-unknown-plant", "10-2", 240, 120, 120),
    )
}

# PlanPO takes its setting from AgentGym-RL, whose server leaves out the long tasks of growing, inclined planes and
# genetics. The paper itself names test conductivity and chemistry mix.
PLANPO = tuple(name for name, task in TASKS.items() if task.number.split("-")[0] not in ("5", "9", "10"))

NEEDS_CIRCUITS = tuple(name for name, task in TASKS.items() if task.number.startswith("3-"))

WORLDS = f"scienceworld {ENGINE}, worlds 2"
"""Names how worlds come about; change it with anything that changes what a task id means."""


@dataclass(frozen=True)
class Tasks:
    """The tasks of one split in their fixed order, and a fingerprint of what makes them."""

    ids: list[str]
    fingerprint: str


def task_list(split: str, names: tuple[str, ...], simplifications: tuple[str, ...], most: int | None) -> Tasks:
    """Of every named task the variations of the split, the first `most` of each. The tasks take turns, so that the first
    few of the list hold some of all."""
    numbers = {name: TASKS[name].variations(split)[:most] for name in names}
    rounds = range(max(map(len, numbers.values())))
    ids = [task_id(split, name, found[turn]) for turn in rounds for name, found in numbers.items() if turn < len(found)]
    made_of = f"{WORLDS}|{','.join(names)}|{','.join(simplifications)}|{most}"
    return Tasks(ids, blake2b(made_of.encode(), digest_size=16).hexdigest())


def task_id(split: str, name: str, variation: int) -> str:
    return f"{split}/{name}/{variation:06d}"
