"""What this package offers to a trainer (entry point group `agentrl.environments`)."""

from __future__ import annotations

import warnings
from typing import Any

from alfworld_env.env import AlfworldEnv
from alfworld_env.options import Games, games, parse_options

env_id = "Alfworld-v0"


def make(**options: Any) -> AlfworldEnv:
    """A new environment; see AlfworldEnv for the options. ValueError for an unknown option or value, ImportError where
    ALFWorld's engine is not installed."""
    return AlfworldEnv(**options)


def tasks(split: str, **options: Any) -> Games:
    """The games of a split. ValueError for an unknown split, and for public data that is missing or unusable; a warning
    where some of it is."""
    found = games(parse_options(options), split)
    if found.warning:
        warnings.warn(found.warning, stacklevel=1)  # of this line: shown once, however many ask
    return found


prompts = {
    "compact": "task: {task}\ndone: {action_history}\n{observation}\n{admissible_actions}",
    "paper": """You live in a house that you know only through text. Your task is to {task}.
So far you have taken {step} step(s). Your last {history_length} observations and actions were:
{history}
This is step {current_step}. You now observe:
{observation}
Actions that are possible in this situation:
[
{admissible_actions}
]

It is your turn. Think first, step by step: what is still to do, where could the thing be, and which action brings you on?
Put these thoughts inside <think> </think>. Then choose exactly one of the actions above for this step and put it inside
<action> </action>.""",
}
