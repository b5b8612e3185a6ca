"""Sokoban as a Gymnasium environment: push every box onto a target."""

from __future__ import annotations

import difflib
import string
from dataclasses import dataclass, fields
from typing import Any

import gymnasium

from sokoban_env.generate import LEVELS, SPLITS, room_of
from sokoban_env.render import picture
from sokoban_env.room import MOVES, Room, State

LEGEND = "# wall, _ floor, O target, X box, √ box on target, P you, S you on a target"
STAY = "still"


class FreeText(gymnasium.Space[str]):
    """All strings."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=None)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A move, or a few random letters."""
        if self.np_random.random() < 0.9:
            return str(self.np_random.choice(MOVES))
        return "".join(string.ascii_lowercase[i] for i in self.np_random.integers(26, size=5))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


@dataclass(frozen=True)
class Options:
    """See SokobanEnv."""

    size: int = 6
    boxes: int = 1
    difficulty: str = "all"
    split: str = "train"
    tasks: int = 10_000
    image: bool = False
    observation: str = "grid"

    def __post_init__(self) -> None:
        for name, low, high in (("size", 5, 10), ("boxes", 1, 4), ("tasks", 1, SPLITS["train"][1])):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
                raise ValueError(f"{name} is {value!r}: give a whole number from {low} to {high}.")
        if self.boxes > (self.size - 4) * 2:
            raise ValueError(
                f"boxes is {self.boxes}: a room of size {self.size} has space for {(self.size - 4) * 2} at most."
            )
        for name, allowed in (
            ("difficulty", ("all", *LEVELS)),
            ("split", tuple(SPLITS)),
            ("observation", ("grid", "coordinates")),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(f"{name} is {value!r}: choose one of {', '.join(allowed)}.")
        if self.difficulty != "all" and self.difficulty not in self.levels:
            raise ValueError(
                f"difficulty is {self.difficulty!r}: a room of size {self.size} is too small for solutions of "
                f"{LEVELS[self.difficulty][0]} moves and more: choose one of all, {', '.join(self.levels)}, or a larger size."
            )
        if not isinstance(self.image, bool):
            raise ValueError(f"image is {self.image!r}: give true or false.")

    @property
    def levels(self) -> list[str]:
        """Those that a room of this size can have: on the 3 x 3 cells of size 5 no solution is long."""
        return [level for level in LEVELS if self.size > 5 or level != "hard"]

    def level(self, number: int) -> str:
        """Of room `number`: with difficulty=all they take turns."""
        return self.levels[number % len(self.levels)] if self.difficulty == "all" else self.difficulty


def parse_options(given: dict[str, Any]) -> Options:
    """ValueError for an unknown option, naming the nearest, and for a value that is not allowed."""
    names = [field.name for field in fields(Options)]
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known options are {', '.join(names)}."
            raise ValueError(f"Sokoban has no option {name!r}: {hint}")
    return Options(**given)


class SokobanEnv(gymnasium.Env[str, str]):
    """Actions are `up`, `down`, `left`, `right` (a box ahead is pushed) and `still`.

    Rewards as in gym-sokoban: -0.1 for each action, +1 for a box pushed onto a target, -1 for one pushed off it, +10 when
    all are on targets, which ends the episode. An action that cannot be read leaves all as it is and costs 0.1 too.

    Options (ValueError for any other name or a value that is not allowed):
        size: 6; cells in a row, the wall around included, 5 to 10. boxes: 1 to 4.
        difficulty: easy (2 to 5 moves at best), medium (6 to 10), hard (11 to 15), or all of them in turn.
        split: train (default), validation, test; which rooms a reset without task_id draws. tasks: 10,000 of train.
        observation: "grid" (default), a sign a cell, or "coordinates", the row and column of everything.
        image: False; True puts the picture into info["image"], uint8[size * 16, size * 16, 3].

    info, at reset and at every step: task, task_type, state_key (the room as text), admissible_actions (moves that change
    something, and still), success, score (share of the boxes on targets), action_valid, action_effective,
    optimal_length (moves of the shortest solution from the start) and steps (actions taken).
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array"]}

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}: use 'ansi', 'rgb_array' or none.")
        self.render_mode = render_mode
        self.options = parse_options(options)
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.room: Room | None = None
        self.level = ""
        self.state: State = (0, 0)
        self.steps = 0
        self.done = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the room `options["task_id"]` ("train/000123"), or one drawn with the seed. ValueError if unknown."""
        super().reset(seed=seed)
        options = dict(options or {})
        task_id = options.pop("task_id", None)
        if options:
            raise ValueError(f"reset has no option {next(iter(options))!r}: the only one is 'task_id'.")
        if task_id is None:
            task_id = (
                f"{self.options.split}/{int(self.np_random.integers(count(self.options, self.options.split))):06d}"
            )
        split, _, number = str(task_id).partition("/")
        known = split in SPLITS and number.isascii() and number.isdigit() and int(number) < count(self.options, split)
        if not known:
            raise ValueError(
                f"task_id {task_id!r} does not exist: use an id that tasks(split) lists, such as 'train/000000'."
            )
        self.level = self.options.level(int(number))
        self.room = room_of(split, int(number), self.options.size, self.options.boxes, self.level)
        self.state, self.steps, self.done = self.room.start, 0, False
        return self._page(self.room, valid=True, effective=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One action. Raises RuntimeError before the first reset and after the end, TypeError if not a string."""
        if not isinstance(action, str):
            raise TypeError(f"the action is of type {type(action).__name__}: give a string such as 'up'.")
        room, before = self.room, self.state
        if room is None or self.done:
            raise RuntimeError("there is no running episode: call reset first.")
        move = action.strip().lower()
        valid = move in MOVES or move == STAY
        if move in MOVES:
            self.state = room.after(before, move)
        self.steps += 1
        placed, placed_before = (mask & room.targets for mask in (self.state[1], before[1]))
        reward = -0.1 + placed.bit_count() - placed_before.bit_count()
        self.done = room.solved(self.state)
        text, info = self._page(room, valid, self.state != before)
        return text, reward + (10.0 if self.done else 0.0), self.done, False, info

    def render(self) -> Any:
        """The text, or with rgb_array the picture; None before the first reset."""
        if self.room is None:
            return None
        text = self.room.text(self.state)
        return picture(text) if self.render_mode == "rgb_array" else text

    def close(self) -> None:
        """End the episode. Nothing else is held."""
        self.room, self.done = None, True

    def _page(self, room: Room, valid: bool, effective: bool) -> tuple[str, dict[str, Any]]:
        text = room.text(self.state)
        info: dict[str, Any] = {
            "task": "push every box onto a target" if self.options.boxes > 1 else "push the box onto the target",
            "task_type": self.level,
            "state_key": text,
            "admissible_actions": [*(m for m in MOVES if room.after(self.state, m) != self.state), STAY],
            "success": self.done,
            "score": (self.state[1] & room.targets).bit_count() / self.options.boxes,
            "action_valid": valid,
            "action_effective": effective,
            "optimal_length": room.optimal,
            "steps": self.steps,
        }
        if self.options.image:
            info["image"] = picture(text)
        return (text if self.options.observation == "grid" else room.places(self.state)), info


def count(options: Options, split: str) -> int:
    """Number of tasks of a split."""
    return options.tasks if split == "train" else SPLITS[split][1]
