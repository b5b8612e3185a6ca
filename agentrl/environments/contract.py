"""What an environment package offers to agentrl, and the checks that name what is missing.

A plugin is a module or an object, found by the entry point group `agentrl.environments`. Its environments follow the
Gymnasium API with text in and text out; agentrl needs no Gymnasium itself and asks only for the methods named here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np


class ContractError(Exception):
    """An environment package breaks the contract. The message names the package, the part and what is expected."""


class Environment(Protocol):
    """One environment. It has no step limit: the episode loop has."""

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]: ...

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]: ...

    def close(self) -> None: ...


class TaskList(Protocol):
    """The tasks of one split: ids in a fixed order and a fingerprint of the data they come from."""

    @property
    def ids(self) -> Sequence[str]: ...

    @property
    def fingerprint(self) -> str: ...


class EnvironmentPlugin(Protocol):
    """What a package offers: an id, a maker of environments, task lists per split, prompt templates by name.

    It may also have `preflight(**options)`, which raises, in one sentence with the remedy, what would keep this machine
    from playing it (an engine or a Java that is missing). It is asked before anything is started.
    """

    env_id: str
    prompts: Mapping[str, str]

    def make(self, **options: Any) -> Environment: ...

    def tasks(self, split: str, **options: Any) -> TaskList: ...


INFO_KEYS: dict[str, tuple[tuple[type, ...], str]] = {
    "task": ((str,), "the goal in words, a str"),
    "state_key": ((str,), "a str that is the same whenever the full state that the observation shows is the same"),
    "success": ((bool, np.bool_), "a bool"),
    "score": ((float, int, np.floating, np.integer), "a number from 0 to 1"),
    "task_type": ((str,), "a str"),
    "action_valid": ((bool, np.bool_), "a bool"),
    "action_effective": ((bool, np.bool_), "a bool"),
}
"""Keys that `info` must hold after reset and after every step, besides `admissible_actions` (list[str] or None)."""


@dataclass(frozen=True)
class Observed:
    """What one reset or step showed, in plain Python values (safe to send between processes and to compare)."""

    observation: str
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]

    @property
    def ended(self) -> bool:
        return self.terminated or self.truncated

    def same_as(self, other: Observed) -> bool:
        """Whether a replay has come to the same place: the observation and the end flags agree."""
        return (self.observation, self.terminated, self.truncated) == (
            other.observation,
            other.terminated,
            other.truncated,
        )


def check_plugin(plugin: Any, name: str) -> EnvironmentPlugin:
    """The plugin itself, once it is seen to have every part. Raises ContractError naming the part that is missing."""
    for part, kind in (("env_id", str), ("prompts", Mapping)):
        value = getattr(plugin, part, None)
        if not isinstance(value, kind):
            raise ContractError(
                f"environment {name}: its plugin {_label(plugin)} must have `{part}`, a {kind.__name__.lower()}, "
                f"but has {value!r}."
            )
    for part, use in (("make", "make(**options) -> environment"), ("tasks", "tasks(split, **options) -> task list")):
        if not callable(getattr(plugin, part, None)):
            raise ContractError(f"environment {name}: its plugin {_label(plugin)} must have the function `{use}`.")
    for template, text in plugin.prompts.items():
        if not isinstance(template, str) or not isinstance(text, str):
            raise ContractError(f"environment {name}: prompts[{template!r}] must be a str, but is {_shape(text)}.")
    checked: EnvironmentPlugin = plugin
    return checked


def check_tasks(tasks: Any, name: str, split: str) -> TaskList:
    """The task list itself, once its ids are unique texts and its fingerprint is a text. Raises ContractError."""
    where = f"environment {name}: tasks({split!r})"
    ids, fingerprint = getattr(tasks, "ids", None), getattr(tasks, "fingerprint", None)
    if not isinstance(ids, list | tuple) or not all(isinstance(task, str) for task in ids):
        raise ContractError(f"{where}.ids must be a list of str, but is {type(ids).__name__}.")
    if not isinstance(fingerprint, str) or not fingerprint:
        raise ContractError(f"{where}.fingerprint must be a non-empty str, but is {fingerprint!r}.")
    if len(set(ids)) != len(ids):
        twice = next(task for task in ids if list(ids).count(task) > 1)
        raise ContractError(f"{where}.ids holds {twice!r} more than once; every task needs an id of its own.")
    checked: TaskList = tasks
    return checked


def check_reset(result: Any, name: str) -> Observed:
    """What `reset` gave, checked. Raises ContractError."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise ContractError(
            f"environment {name}: reset must return (observation, info), but returned {_shape(result)}."
        )
    return _observed(result[0], 0.0, False, False, result[1], name, "reset")


def check_step(result: Any, name: str) -> Observed:
    """What `step` gave, checked. Raises ContractError."""
    if not isinstance(result, tuple) or len(result) != 5:
        raise ContractError(
            f"environment {name}: step must return (observation, reward, terminated, truncated, info), "
            f"but returned {_shape(result)}."
        )
    observation, reward, terminated, truncated, info = result
    if not _is_number(reward) or not np.isfinite(reward):
        raise ContractError(f"environment {name}: step must return a finite reward, but returned {reward!r}.")
    for flag, value in (("terminated", terminated), ("truncated", truncated)):
        if not isinstance(value, bool | np.bool_):
            raise ContractError(f"environment {name}: step must return {flag} as a bool, but returned {value!r}.")
    return _observed(observation, float(reward), bool(terminated), bool(truncated), info, name, "step")


def _observed(
    observation: Any, reward: float, terminated: bool, truncated: bool, info: Any, name: str, method: str
) -> Observed:
    if not isinstance(observation, str):
        raise ContractError(
            f"environment {name}: {method} must return the observation as a str, but returned {_shape(observation)}."
        )
    if not isinstance(info, Mapping):
        raise ContractError(f"environment {name}: {method} must return info as a dict, but returned {_shape(info)}.")
    plain = dict(info)
    for key, (kinds, meaning) in INFO_KEYS.items():
        if key not in plain:
            raise ContractError(f"environment {name}: info of {method} lacks {key!r} ({meaning}).")
        value = plain[key]
        # bool is an int to Python, yet a score of True is a mistake
        if not isinstance(value, kinds) or (key == "score" and isinstance(value, bool)):
            raise ContractError(f"environment {name}: info[{key!r}] of {method} must be {meaning}, but is {value!r}.")
        plain[key] = value.item() if isinstance(value, np.generic) else value
    if not 0.0 <= plain["score"] <= 1.0:
        raise ContractError(
            f"environment {name}: info['score'] of {method} must lie in 0..1, but is {plain['score']!r}; "
            "divide it by its maximum."
        )
    plain["score"] = float(plain["score"])
    actions = plain.get("admissible_actions", KeyError)
    if actions is KeyError:
        raise ContractError(
            f"environment {name}: info of {method} lacks 'admissible_actions' (a list of str, or None)."
        )
    if actions is not None:
        if isinstance(actions, str) or not all(isinstance(action, str) for action in actions):
            raise ContractError(
                f"environment {name}: info['admissible_actions'] of {method} must be a list of str or None, "
                f"but is {actions!r:.100}."
            )
        plain["admissible_actions"] = list(actions)
    return Observed(observation, reward, terminated, truncated, plain)


def _is_number(value: Any) -> bool:
    return isinstance(value, float | int | np.floating | np.integer) and not isinstance(value, bool)


def _label(plugin: Any) -> str:
    return getattr(plugin, "__name__", None) or type(plugin).__name__


def _shape(value: Any) -> str:
    return f"a tuple of {len(value)}" if isinstance(value, tuple) else f"a {type(value).__name__}"
