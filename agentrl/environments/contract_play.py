"""Playing an environment for the contract test suite: its settings, its policy, and the comparison of two walks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrl.environments.contract import (
    ContractError,
    EnvironmentPlugin,
    Observed,
    check_plugin,
    check_reset,
    check_step,
    check_tasks,
)
from agentrl.environments.registry import load_environment

COMPARED = ("task", "state_key", "success", "score", "admissible_actions", "action_valid", "action_effective")
"""Keys of info that must repeat. The others may hold what differs by nature, such as times."""

Policy = Callable[[Observed, random.Random], str]
"""Picks an action: (what was last shown, a random source) -> action."""


def admissible_policy(seen: Observed, rng: random.Random) -> str:
    """A random admissible action. Environments that list none need a policy of their own in `check_environment`."""
    actions = seen.info["admissible_actions"]
    assert actions, (
        "info['admissible_actions'] is empty or None, so the suite cannot choose an action; "
        "give check_environment(policy=...), a function (seen, rng) -> action."
    )
    return str(rng.choice(actions))


@dataclass
class Suite:
    """What the checks share. `name` is a registry name or `package.module:object`, so that other processes find it."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    split: str = "train"
    splits: Sequence[str] = ("train", "validation", "test")
    policy: Policy = admissible_policy
    invalid_actions: Sequence[str] = ("", "no such action 7f3a", "search", "[", "]" * 2000)
    task_count: int = 5
    turns: int = 12
    resets: int = 400
    growth_limit_bytes: int = 24 << 20
    seed: int = 11
    admissible_share: float = 1.0  # of the listed actions that are valid when tried; below 1 where an engine lists more
    page_tells_state: bool = False  # the page alone shows the state (WebShop), not what the last action did (ALFWorld)

    def __post_init__(self) -> None:
        self.plugin: EnvironmentPlugin = plainly(check_plugin, load_environment(self.name), self.name)
        ids = plainly(check_tasks, self.plugin.tasks(self.split, **self.options), self.name, self.split).ids
        assert ids, f"{self.name}: tasks({self.split!r}) is empty."
        stride = max(1, len(ids) // self.task_count)
        self.tasks = list(ids[::stride][: self.task_count])

    def play(self, environment: Any, task_id: str, actions: Sequence[str] | None = None) -> list[tuple[str, Observed]]:
        """[(action, what it showed)], the first with action ""; by `policy` unless `actions` are given."""
        rng = random.Random(f"{task_id} {self.seed}")
        seen = self.reset(environment, task_id)
        walk = [("", seen)]
        for turn in range(self.turns if actions is None else len(actions)):
            if seen.ended:
                break
            action = self.policy(seen, rng) if actions is None else actions[turn]
            seen = self.step(environment, action)
            walk.append((action, seen))
        return walk

    def reset(self, environment: Any, task_id: str) -> Observed:
        result = environment.reset(seed=self.seed, options={"task_id": task_id})
        return plainly(check_reset, result, self.name)

    def step(self, environment: Any, action: str) -> Observed:
        return plainly(check_step, environment.step(action), self.name)


def plainly(check: Callable[..., Any], *args: Any) -> Any:
    try:
        return check(*args)
    except ContractError as error:
        raise AssertionError(str(error)) from None


def same(suite: Suite, here: list[tuple[str, Observed]], there: list[tuple[str, Observed]], where: str) -> None:
    """Both walks showed the same. The whole info is not compared: it may hold what differs by nature, e.g. times."""
    for turn, ((action, a), (_, b)) in enumerate(zip(here, there, strict=False)):
        step = f"after action {turn} ({action!r})" if turn else "after reset"
        for part in ("observation", "reward", "terminated", "truncated"):
            x, y = getattr(a, part), getattr(b, part)
            assert x == y, (
                f"{suite.name}: same task and seed, but {step} the {part} differs {where}: {x!r:.150} and {y!r:.150}."
            )
        for part in COMPARED:
            x, y = a.info[part], b.info[part]
            assert x == y, (
                f"{suite.name}: same task and seed, but {step} info[{part!r}] differs {where}: "
                f"{x!r:.150} and {y!r:.150}."
            )
    assert len(here) == len(there), f"{suite.name}: same task and seed, but the episode ends elsewhere {where}."
