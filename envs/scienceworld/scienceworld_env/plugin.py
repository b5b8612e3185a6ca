"""What this package offers to a trainer (entry point group `agentrl.environments`)."""

from __future__ import annotations

from typing import Any

from scienceworld_env.catalogue import Tasks, task_list
from scienceworld_env.env import ScienceWorldEnv
from scienceworld_env.java import find_jar, find_java
from scienceworld_env.options import check_split, parse_options

env_id = "ScienceWorld-v0"


def make(**options: Any) -> ScienceWorldEnv:
    """A new environment; see ScienceWorldEnv for the options. Raises ValueError for an unknown option or value,
    JavaError and EngineMissing where it cannot run."""
    return ScienceWorldEnv(**options)


def tasks(split: str, **options: Any) -> Tasks:
    """The tasks of a split. Needs no Java. ValueError for an unknown split."""
    parsed = parse_options(options)
    check_split(split)
    return task_list(split, parsed.tasks, parsed.simplifications, parsed.max_variations)


def preflight(**options: Any) -> None:
    """Raise JavaError or EngineMissing where this machine cannot run it. Starts nothing."""
    find_java()
    find_jar()


COMMANDS = """open OBJ, close OBJ, activate OBJ, deactivate OBJ, connect OBJ to OBJ, disconnect OBJ, use OBJ on OBJ,
look around, look at OBJ, look in OBJ, read OBJ, pick up OBJ, put down OBJ, move OBJ to OBJ, pour OBJ into OBJ,
dunk OBJ into OBJ, mix OBJ, eat OBJ, flush OBJ, focus on OBJ, go to ROOM, teleport to ROOM, inventory, task,
wait (ten time steps), wait1 (one time step)"""
RULES = f"""The commands that you can give (OBJ stands for a thing that you see or carry, ROOM for a place):
{COMMANDS}
Name things as they are named to you. Where a name fits several things you are asked for a number: answer with it alone.
Focus on a thing only when the task asks for it: focusing on a wrong one ends the episode."""

prompts = {
    "compact": "task: {task}\ndone: {action_history}\nseen: {observation}",
    "rules": f"This is a small world of rooms and things, in which tasks of elementary science are solved.\n{RULES}",
    "paper": f"""You are an agent in a small world of rooms, things and living beings, where you solve tasks of elementary \
science by doing experiments.
Your task: {{task}}
{RULES}
You have taken {{step}} step(s) so far. Your last {{history_length}} observations and actions were:
{{history}}
This is step {{current_step}}. What you observe now:
{{observation}}

It is your turn. Think first, step by step: what does the task still need, what have you learned, and which command brings
you closer? Put these thoughts inside <think> </think>. Then give exactly one command for this step and put it inside
<action> </action>.""",
}
