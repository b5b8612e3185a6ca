"""The engine's own solutions (gold paths) as an expert, and players that err or know nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from scienceworld_env.env import ScienceWorldEnv, parse_task_id
from scienceworld_env.options import parse_options
from scienceworld_env.world import World

GIVE_UP = "wait1"


def gold_path(task_id: str, simplifications: str | tuple[str, ...] = "easy") -> list[str]:
    """The commands with which the engine solves the task, in the world that `reset` starts. 0.1 to 2 s.

    Raises ValueError for an unknown task, RuntimeError where the engine knows no way.
    """
    options = parse_options({"tasks": "all", "simplifications": simplifications})
    name, variation = parse_task_id(task_id, options)
    world = World()
    try:
        world.load(name, variation, ",".join(options.simplifications), 0, gold=True)
        path = world.gold_path()
    finally:
        world.close()
    if not path or path[0].startswith("ERROR"):
        raise RuntimeError(f"the engine has no solution of {task_id!r} with {simplifications!r}.")
    return path


@dataclass
class Expert:
    """Follows the gold path of the running episode, whatever happens on the way; waits where it has ended."""

    paths: dict[tuple[str, tuple[str, ...]], list[str]] = field(default_factory=dict)

    def act(self, env: ScienceWorldEnv) -> str:
        key = env.task_id, env.options.simplifications
        if key not in self.paths:
            self.paths[key] = gold_path(*key)
        path = self.paths[key]
        return path[env.steps] if env.steps < len(path) else GIVE_UP


@dataclass
class RandomAgent:
    """Any possible command, but none that focuses: a wrong focus ends the episode."""

    rng: random.Random

    def act(self, env: ScienceWorldEnv) -> str:
        return self.rng.choice([action for action in env.valid_actions() if not action.startswith("focus")])


def play(
    env: ScienceWorldEnv, agent: Expert | RandomAgent, task_id: str, max_turns: int = 200
) -> tuple[float, bool, int]:
    """(score, success, turns) of one episode."""
    _, info = env.reset(seed=0, options={"task_id": task_id})
    for _ in range(max_turns):
        _, _, ended, _, info = env.step(agent.act(env))
        if ended:
            break
    return info["score"], info["success"], info["steps"]
