"""ScienceWorld as a Gymnasium environment: elementary science, done rather than answered."""

from __future__ import annotations

import re
import string
import warnings
from hashlib import blake2b
from typing import Any

import gymnasium

from scienceworld_env.catalogue import SPLITS, TASKS, task_list
from scienceworld_env.java import find_jar, find_java
from scienceworld_env.options import Options, parse_options
from scienceworld_env.world import Shown, World

_first_pages: dict[str, str] = {}
"""What each task of this process showed first; a group must start from one state."""


class FreeText(gymnasium.Space[str]):
    """All strings."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=None)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A command that is often possible, or a few random letters."""
        if self.np_random.random() < 0.5:
            return str(self.np_random.choice(["look around", "inventory", "wait1", "open door to hallway"]))
        return "".join(string.ascii_lowercase[i] for i in self.np_random.integers(26, size=5))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class ScienceWorldEnv(gymnasium.Env[str, str]):
    """Actions are the engine's commands ("open door to kitchen", "focus on orange", "wait1"), one a step.

    The reward is what the score rises by, so that an episode's rewards add up to its last score, 0 to 1. The episode
    ends when the task is completed, and when it is spoiled (the engine's score of -100: wrong thing focused on), which
    puts the score to 0. A command that the engine does not know changes nothing.

    Options (ValueError for any other name or a value that is not allowed):
        tasks: "planpo" (default; 23 tasks), "all" (30), or names or numbers of tasks, as a list or with commas between.
        simplifications: "easy" (all five that the task allows), "none", or some of teleportAction,
            selfWateringFlowerPots, openContainers, openDoors, noElectricalAction.
        valid_actions: False; True fills info["admissible_actions"] at every step, which costs more than the step itself
            (200 to 1,300 texts). `valid_actions()` lists them on demand.
        max_variations: None; the first so many of each task and split.
        split: train (default), validation, test; which tasks a reset without task_id draws.

    info, at reset and at every step: task, task_type (the engine's name of the task), state_key (from what is seen and
    carried, whatever its order, the score and a standing question), admissible_actions, success (score 1), score (0 to
    1), action_valid, action_effective, steps (actions taken), raw_score (the engine's, -100 to 100), variation,
    repeatable (False: the world differs from load to load, so do not compare members of a group) and start (a
    fingerprint of the first page, for comparing starts across processes).

    Same task_id and seed: the same world and the same chances in any process. The seed changes what happens by chance
    during the episode (where animals wander), never the first state.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode is {render_mode!r}: use 'ansi' or none.")
        self.render_mode = render_mode
        self.options: Options = parse_options(options)
        find_java(), find_jar()  # tell at once what is missing, not at the first episode
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.world = World()
        self.task_id = self.goal = self.name = ""
        self.variation = 0
        self.seed = 0
        self.steps = 0
        self.done = True
        self._shown: Shown | None = None
        self._key = self._start = ""
        self._repeatable = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start `options["task_id"]` ("train/boil/000003"), or a task drawn with the seed. ValueError if unknown."""
        super().reset(seed=seed)
        options = dict(options or {})
        wanted = options.pop("task_id", None)
        if options:
            raise ValueError(f"reset has no option {next(iter(options))!r}: the only one is 'task_id'.")
        if wanted is None:
            ids = tasks_of(self.options, self.options.split)
            wanted = ids[int(self.np_random.integers(len(ids)))]
        self.name, self.variation = parse_task_id(wanted, self.options)
        self.task_id, self.steps, self.seed, self.done = str(wanted), 0, int(seed or 0), True
        shown = self.world.load(self.name, self.variation, ",".join(self.options.simplifications), self.seed)
        self.goal = self.world.goal()
        self.done = False
        self._shown, self._key = shown, self._key_of(shown)
        self._check_start(shown)
        return shown.look, self._info(shown, True, True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One command. Raises RuntimeError before the first reset, after the end and where the Java process has died,
        TypeError if not a string."""
        if not isinstance(action, str):
            raise TypeError(f"the action is of type {type(action).__name__}: give a string such as 'look around'.")
        if self._shown is None or self.done:
            raise RuntimeError("there is no running episode: call reset first.")
        before = score_of(self._shown)
        shown = self.world.command(action)
        self.steps += 1
        key = self._key_of(shown)
        effective, self._key, self._shown = key != self._key, key, shown
        self.done = shown.completed or shown.score < 0
        info = self._info(shown, shown.known, effective)
        return shown.text, score_of(shown) - before, self.done, False, info

    def valid_actions(self) -> list[str]:
        """The engine's list of possible commands, of which it knows not all. RuntimeError without a running episode."""
        if self._shown is None or self.done:
            raise RuntimeError("there is no running episode: call reset first.")
        return self.world.valid_actions()

    def render(self) -> str | None:
        """What is seen and carried now; None before the first reset."""
        return None if self._shown is None else f"{self._shown.look}\n{self._shown.inventory}"

    def close(self) -> None:
        """End the episode. The Java process ends with the last environment of this process."""
        self.done, self._shown = True, None
        self.world.close()

    def _key_of(self, shown: Shown) -> str:
        """The room's name and a fingerprint. Sets of things are listed in the order of their history: sorted here."""
        parts = [*_things(shown.look), "|", *_things(shown.inventory), f"|{shown.score:.4f}"]
        if self.world.question:
            parts.append(f"|{self.world.question}")
        room = re.search(r"called the ([^.]*)\.", shown.look)
        digest = blake2b("\n".join(parts).encode("utf-8", "replace"), digest_size=10).hexdigest()
        return f"{room[1] if room else 'nowhere'} {digest}"

    def _check_start(self, shown: Shown) -> None:
        """Flags a task whose first page differs from that of an earlier load in this process."""
        page = "\n".join((self.goal, shown.look, shown.inventory))
        self._start = blake2b(page.encode("utf-8", "replace"), digest_size=8).hexdigest()
        where = f"{self.task_id} {self.options.simplifications}"
        self._repeatable = True
        if _first_pages.setdefault(where, self._start) != self._start:
            self._repeatable = False
            warnings.warn(
                f"ScienceWorld: {self.task_id} started otherwise than before; see info['repeatable'].", stacklevel=3
            )

    def _info(self, shown: Shown, valid: bool, effective: bool) -> dict[str, Any]:
        listed = self.options.valid_actions and not self.done
        return {
            "task": self.goal,
            "task_type": self.name,
            "state_key": self._key,
            "admissible_actions": self.world.valid_actions() if listed else None,
            "success": shown.score >= 1.0,
            "score": score_of(shown),
            "action_valid": valid,
            "action_effective": effective,
            "steps": self.steps,
            "raw_score": round(100 * shown.score),
            "variation": self.variation,
            "repeatable": self._repeatable,
            "start": self._start,
        }


def score_of(shown: Shown) -> float:
    """0 to 1; a spoiled task (the engine's -1) has 0."""
    return min(1.0, max(0.0, shown.score))


def tasks_of(options: Options, split: str) -> list[str]:
    return task_list(split, options.tasks, options.simplifications, options.max_variations).ids


def parse_task_id(task_id: Any, options: Options) -> tuple[str, int]:
    """Name and variation. ValueError naming what is wrong with the id."""
    split, _, rest = str(task_id).partition("/")
    name, _, number = rest.partition("/")
    says = f"task_id {task_id!r} does not exist"
    if split not in SPLITS or name not in TASKS or not (number.isascii() and number.isdigit()):
        raise ValueError(f"{says}: use an id that tasks(split) lists, such as 'train/boil/000003'.")
    if name not in options.tasks:
        raise ValueError(f"{says} with these options: the option tasks leaves {name!r} out.")
    allowed = TASKS[name].variations(split)[: options.max_variations]
    if int(number) not in allowed:
        raise ValueError(f"{says}: the {split} variations of {name!r} are {allowed[0]} to {allowed[-1]}.")
    return name, int(number)


def _things(text: str) -> list[str]:
    """The lines of a description, sorted, and what each lists sorted too."""
    return sorted(", ".join(sorted(line.split(", "))) for line in text.split("\n"))
