"""Environments that each break one promise of the contract, for the tests of the contract suite."""

from __future__ import annotations

import os
import random
import threading
from typing import Any

import corridor_plugin as good
from corridor_plugin import CorridorEnv, Tasks


class Broken:
    """The corridor's plugin with another environment class or another task list."""

    env_id = "Broken-v0"
    prompts = good.prompts

    def __init__(self, environment: type[CorridorEnv] = CorridorEnv, tasks: Any = good.tasks) -> None:
        self.environment = environment
        self.tasks = tasks

    def make(self, **options: Any) -> CorridorEnv:
        return self.environment(**options)


class Unseeded(CorridorEnv):
    def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        return super().reset(seed=random.SystemRandom().randrange(1000), options=options)


class HashSeeded(CorridorEnv):
    """Repeats within a process only: Python salts the hashes of texts anew in each."""

    def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        return super().reset(seed=hash(f"seed {seed}"), options=options)


class SharedState(CorridorEnv):
    places: dict[str, int] = {}

    @property
    def place(self) -> int:
        return self.places["here"]

    @place.setter
    def place(self, value: int) -> None:
        self.places["here"] = value


class LacksKey(CorridorEnv):
    def info(self, valid: bool, effective: bool) -> dict[str, Any]:
        info = super().info(valid, effective)
        del info["state_key"]
        return info


class ScoreOutOfRange(CorridorEnv):
    def info(self, valid: bool, effective: bool) -> dict[str, Any]:
        return {**super().info(valid, effective), "score": 40.0}


class SuccessIsText(CorridorEnv):
    def info(self, valid: bool, effective: bool) -> dict[str, Any]:
        return {**super().info(valid, effective), "success": "no"}


class CountsInKey(CorridorEnv):
    """The key changes although nothing did."""

    def info(self, valid: bool, effective: bool) -> dict[str, Any]:
        return {**super().info(valid, effective), "state_key": f"{self.place} {self.steps}"}


class OneKey(CorridorEnv):
    """All states share one key."""

    def info(self, valid: bool, effective: bool) -> dict[str, Any]:
        return {**super().info(valid, effective), "state_key": "here"}


class RaisesOnInvalid(CorridorEnv):
    def step(self, action: str) -> Any:
        if action not in ("left", "right", "open"):
            raise KeyError(action)
        return super().step(action)


class AllValid(CorridorEnv):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated, truncated, {**info, "action_valid": True}


class InvalidEnds(CorridorEnv):
    def step(self, action: str) -> Any:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, terminated or not info["action_valid"], truncated, info


class ListsTooMuch(CorridorEnv):
    def info(self, valid: bool, effective: bool) -> dict[str, Any]:
        return {**super().info(valid, effective), "admissible_actions": ["jump"]}


class KeepsThread(CorridorEnv):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        threading.Thread(target=threading.Event().wait, args=(60.0,), daemon=True).start()


class KeepsFile(CorridorEnv):
    kept: list[int] = []

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.kept.append(os.open(os.devnull, os.O_RDONLY))


class Grows(CorridorEnv):
    kept: list[bytes] = []

    def reset(self, *, seed: int, options: dict[str, Any]) -> Any:
        self.kept.append(os.urandom(200_000))
        return super().reset(seed=seed, options=options)


class TakesAnyOption(CorridorEnv):
    def __init__(self, **options: Any) -> None:
        super().__init__()


def overlapping_tasks(split: str, **options: Any) -> Tasks:
    return Tasks([f"goal/{index}" for index in range(5)], "same")


def shuffled_tasks(split: str, **options: Any) -> Tasks:
    ids = list(good.tasks(split).ids)
    random.SystemRandom().shuffle(ids)
    return Tasks(ids, "same")


def doubled_tasks(split: str, **options: Any) -> Tasks:
    return Tasks([f"{split}/0", f"{split}/0"], "same")


unseeded = Broken(Unseeded)
hash_seeded = Broken(HashSeeded)
shared_state = Broken(SharedState)
lacks_key = Broken(LacksKey)
score_out_of_range = Broken(ScoreOutOfRange)
success_is_text = Broken(SuccessIsText)
counts_in_key = Broken(CountsInKey)
one_key = Broken(OneKey)
raises_on_invalid = Broken(RaisesOnInvalid)
all_valid = Broken(AllValid)
invalid_ends = Broken(InvalidEnds)
lists_too_much = Broken(ListsTooMuch)
keeps_thread = Broken(KeepsThread)
keeps_file = Broken(KeepsFile)
grows = Broken(Grows)
takes_any_option = Broken(TakesAnyOption)
overlapping = Broken(tasks=overlapping_tasks)
shuffled = Broken(tasks=shuffled_tasks)
doubled = Broken(tasks=doubled_tasks)
