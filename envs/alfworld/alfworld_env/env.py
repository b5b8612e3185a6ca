"""ALFWorld as a Gymnasium environment: household tasks in text, on TextWorld's PDDL engine."""

from __future__ import annotations

import string
from typing import Any

import gymnasium

from alfworld_env.generate import Game
from alfworld_env.options import games, parse_options

DYNAMIC = ("isclean", "ishot", "iscool", "issliced", "ison", "istoggled")


class FreeText(gymnasium.Space[str]):
    """All strings."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=None)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A few random letters: what can be done is in info["admissible_actions"]."""
        return "".join(string.ascii_lowercase[i] for i in self.np_random.integers(26, size=5))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class AlfworldEnv(gymnasium.Env[str, str]):
    """Actions are ALFWorld's commands, e.g. `go to fridge 1`, `open fridge 1`, `take egg 1 from fridge 1`,
    `heat egg 1 with microwave 1`, `move egg 1 to diningtable 1`; anything else is answered "Nothing happens.".

    Reward 1 when the goal holds, which ends the episode, else 0. The papers give 50 turns; the environment sets no limit.

    Options (ValueError for any other name or a value that is not allowed):
        data_dir: folder of the public games (or ALFWORLD_DATA); else, or with "generated", games are generated.
        size: of generated games: "full" rooms, or "small" ones of eight receptacles for small models.
        task_types: the types of tasks to play, all six by default. tasks: number of generated training games, 1,200.
        anchor: what `state_key` is made of: "state" (where the agent is, what it sees there, what it holds, which of the
            wanted objects are in their place), or "feedback", the last text alone, as the public GiGPO code has it.
        split: train (default), validation (valid_seen), test (valid_unseen): what a reset without task_id draws from.
        cache_dir: where translated games are kept; by default $XDG_CACHE_HOME/alfworld_env.

    info, at reset and at every step: task, task_type, state_key, admissible_actions, success, score (1 or 0),
    action_valid, action_effective (the state_key changed) and steps.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode is {render_mode!r}: use 'ansi' or none.")
        from alfworld_env.engine import Engine

        self.render_mode = render_mode
        self.options = parse_options(options)
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.engine: Engine | None = Engine()
        self.game: Game | None = None
        self.text = ""
        self.key = ""
        self.steps = 0
        self.done = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the game `options["task_id"]`, or one drawn with the seed.

        Raises ValueError for an unknown task, a game that cannot be read, and a generated one that cannot be won.
        """
        super().reset(seed=seed)
        options = dict(options or {})
        task_id = options.pop("task_id", None)
        if options:
            raise ValueError(f"reset has no option {next(iter(options))!r}: the only one is 'task_id'.")
        if self.engine is None:
            raise RuntimeError("the environment is closed: make a new one.")
        if task_id is None:
            known = games(self.options, self.options.split).ids
            task_id = known[int(self.np_random.integers(len(known)))]
        from alfworld_env.prove import start

        self.game, self.text = start(self.engine, self.options, str(task_id))
        self.steps, self.done, self.key = 0, False, ""
        self._new_key()
        return self.text, self._info(valid=True, effective=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One command. Raises RuntimeError before the first reset and after the end, TypeError if not a string."""
        if not isinstance(action, str):
            raise TypeError(f"the action is of type {type(action).__name__}: give a string such as 'look'.")
        if self.game is None or self.done or self.engine is None:
            raise RuntimeError("there is no running episode: call reset first.")
        self.text, valid = self.engine.step(" ".join(action.lower().split()))
        self.text = self.text.strip()
        self.steps += 1
        effective = self._new_key()
        self.done = self.engine.won
        return self.text, float(self.done), self.done, False, self._info(valid, effective)

    def render(self) -> str | None:
        """The last text; None before the first reset."""
        return self.text if self.game is not None else None

    def close(self) -> None:
        """Hand the engine on to the next environment. May be called twice."""
        self.game, self.done = None, True
        if self.engine is not None:
            self.engine.close()
            self.engine = None

    def _info(self, valid: bool, effective: bool) -> dict[str, Any]:
        assert self.engine is not None and self.game is not None
        return {
            "task": self.engine.goal.rstrip("."),
            "task_type": self.game.goal.task_type,
            "state_key": self.key,
            "admissible_actions": sorted(self.engine.operators),
            "success": self.done,
            "score": float(self.done),
            "action_valid": valid,
            "action_effective": effective,
            "steps": self.steps,
        }

    def _new_key(self) -> bool:
        """Bring the key up to date; whether it changed."""
        before = self.key
        self.key = self.text if self.options.anchor == "feedback" else self._state()
        return self.key != before

    def _state(self) -> str:
        """Where the agent is, what it sees there, what it holds, and which wanted objects are in their place.

        Names are unique within a game, so two states of one task have one key just when these agree.
        """
        assert self.engine is not None and self.game is not None
        facts, names = self.engine.facts, self.engine.names
        location = {place for _, place in facts["atlocation"]}
        here = {r for r, place in facts["receptacleatlocation"] if place in location}
        shut = {r for (r,) in facts["openable"]} - {r for (r,) in facts["opened"]}
        held = {o for _, o in facts["holds"]}
        seen = {o: r for o, r in facts["inreceptacle"] if r in here - shut}
        states = {
            o: [state for state in DYNAMIC if (o,) in facts[state]] for o in sorted({*seen, *held, *self._wanted()})
        }
        parts = [
            *(f"at {names[r]}{' shut' if r in shut else ''}" for r in sorted(here)),
            *(f"see {names[o]} {names[r]}" for o, r in sorted(seen.items())),
            *(f"hold {names[o]}" for o in sorted(held)),
            *(f"placed {names[o]}" for o in self._in_place()),
            *(f"{names[o]} {state}" for o, found in states.items() for state in found),
        ]
        return "; ".join(parts) or "start"

    def _wanted(self) -> list[str]:
        assert self.engine is not None and self.game is not None
        goal = self.game.goal
        kinds = {f"{goal.object}type".lower(), f"{goal.lamp}type".lower()}
        return [o for o, kind in self.engine.facts["objecttype"] if kind in kinds]

    def _in_place(self) -> list[str]:
        assert self.engine is not None and self.game is not None
        target = f"{self.game.goal.receptacle}type".lower()
        facts, wanted = self.engine.facts, set(self._wanted())
        targets = {r for r, kind in facts["receptacletype"] if kind == target}
        return sorted(o for o, r in facts["inreceptacle"] if o in wanted and r in targets)
