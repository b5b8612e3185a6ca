"""A generated game is played to its end by the scripted expert before anybody else plays it.

That takes a few milliseconds, once per process and game, and a walkthrough comes out.
"""

from __future__ import annotations

from collections import OrderedDict

from alfworld_env.engine import Engine
from alfworld_env.expert import Expert
from alfworld_env.generate import Game
from alfworld_env.options import Options, game

MOST_STEPS = 300
_KEPT = 4096
_walkthroughs: OrderedDict[tuple[str, str], list[str]] = OrderedDict()


class UnsolvableGame(ValueError):
    """A game that the scripted expert could not win."""


def start(engine: Engine, options: Options, task_id: str) -> tuple[Game, str]:
    """Load the game of a task id and return it with its first text. Raises UnsolvableGame, a ValueError."""
    found = game(options, task_id)
    if not options.data:
        walkthrough(engine, options, found)
    try:
        return found, engine.load(found.data, options.cache_dir or None)
    except ValueError as error:
        raise ValueError(f"the game {task_id!r} cannot be played: {error}") from error


def walkthrough(engine: Engine, options: Options, found: Game) -> list[str]:
    """Commands that win a game, found by playing it. Raises UnsolvableGame where the expert does not win."""
    key = (options.data or options.size, found.task_id)
    if key not in _walkthroughs:
        text = engine.load(found.data, options.cache_dir or None)
        expert = Expert(found.goal)
        commands: list[str] = []
        while not engine.won:
            if len(commands) == MOST_STEPS:
                raise UnsolvableGame(
                    f"the game {found.task_id!r} was not won by the scripted expert in {MOST_STEPS} steps."
                )
            commands.append(expert.act(text, sorted(engine.operators)))
            text, _ = engine.step(commands[-1])
        _walkthroughs[key] = commands
        if len(_walkthroughs) > _KEPT:
            _walkthroughs.popitem(last=False)
    return _walkthroughs[key]
