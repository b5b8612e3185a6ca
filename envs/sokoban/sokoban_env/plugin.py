"""What this package offers to a trainer (entry point group `agentrl.environments`)."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sokoban_env.env import LEGEND, SokobanEnv, count, parse_options
from sokoban_env.generate import GENERATOR, LEVELS, SPLITS

env_id = "Sokoban-v0"


@dataclass(frozen=True)
class Tasks:
    """The tasks of one split in their fixed order, and a fingerprint of what makes them."""

    ids: list[str]
    fingerprint: str


def make(**options: Any) -> SokobanEnv:
    """A new environment; see SokobanEnv for the options. Raises ValueError for an unknown option or value."""
    return SokobanEnv(**options)


def tasks(split: str, **options: Any) -> Tasks:
    """The tasks of a split. ValueError for an unknown split."""
    parsed = parse_options(options)
    if split not in SPLITS:
        raise ValueError(f"split {split!r} does not exist: choose one of {', '.join(SPLITS)}.")
    # "all" of a small room is not all
    levels = "" if parsed.levels == list(LEVELS) or parsed.difficulty != "all" else f" {','.join(parsed.levels)}"
    made_of = f"{GENERATOR} {parsed.size} {parsed.boxes} {parsed.difficulty} {parsed.tasks}{levels}"
    fingerprint = blake2b(made_of.encode(), digest_size=16).hexdigest()
    return Tasks([f"{split}/{number:06d}" for number in range(count(parsed, split))], fingerprint)


prompts = {
    "compact": "task: {task}\ndone: {action_history}\nroom:\n{observation}",
    "paper": f"""You are playing Sokoban: {{task}}. You can walk on floor and targets. When you walk against a box it moves one
cell on, unless a wall or another box is behind it. Boxes can be pushed, never pulled.
The signs: {LEGEND}.
You have taken {{step}} step(s) so far. Your last {{history_length}} observations and actions were:
{{history}}
This is step {{current_step}}. The room now:
{{observation}}
Actions that you can take:
[
{{admissible_actions}}
]

It is your turn. Think first, step by step: which box goes to which target, from which side must you push it, and what is
the next move? Put these thoughts inside <think> </think>. Then choose exactly one of the actions above for this step and
put it inside <action> </action>.""",
}
