"""Sokoban for the cold start: somebody who knows the shortest way and often errs."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentrl.coldstart.sft import SftSettings
from agentrl.coldstart.tokenizer import build_tokenizer
from agentrl.coldstart.world import Decision, Stage, World

MOVES = ("up", "down", "left", "right")


@dataclass(frozen=True)
class Slips:
    """Probabilities. any_move: of a move drawn by lot. malformed: of breaking the format."""

    any_move: float = 0.0
    malformed: float = 0.0


READ = Stage(
    "read", Slips(), Slips(any_move=0.4, malformed=0.02), SftSettings(steps=2000, batch_size=128, learning_rate=2e-3)
)
IMITATE = Stage(
    "imitate",
    Slips(any_move=0.5, malformed=0.05),
    None,
    SftSettings(steps=150, learning_rate=5e-4, warmup_steps=30, seed=1),
)


def next_push(room: Any, state: tuple[int, int], moves: Sequence[str]) -> str:
    """Which way `moves` next push a box: what a player thinks of while he walks round it. "lost" if they never do."""
    for move in moves:
        after = room.after(state, move)
        if after[1] != state[1]:
            return move
        state = after
    return "lost"


class WarehouseWorld(World):
    """Rooms of 6 x 6 cells with one box, two to five moves from the end."""

    name = "sokoban"
    asset = "tiny_sokoban"
    options = {"size": 6, "boxes": 1, "difficulty": "easy", "observation": "coordinates"}
    history = 2
    max_turns = 15
    max_prompt_tokens = 192
    stages = (READ, IMITATE)

    def decide(
        self, env: Any, text: str, info: dict[str, Any], recent: Sequence[str], slips: Slips, rng: random.Random
    ) -> Decision:
        from sokoban_env.search import solution

        moves = solution(env.room, env.state) or []
        well_formed = rng.random() >= slips.malformed
        slip = rng.random() < slips.any_move
        move = rng.choice(MOVES) if slip else (moves or ["still"])[0]
        return Decision(next_push(env.room, env.state, moves), move, well_formed)

    def make_tokenizer(self) -> Any:
        """The few words there are: a number for a row and another for a column."""
        text = "user\nassistant\ntask: push the box onto the target\ndone: none\nroom:\nyou box target wall ,"
        words = [
            *re.findall("[a-z]+", text),
            "lost",
            *MOVES,
            "still",
            *(f"{way}{n}" for way in "rc" for n in range(10)),
        ]
        always = [form for word in words for form in (word, f" {word}")]
        return build_tokenizer([text], always=always, size=512, merges=0)
