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
    "read", Slips(), Slips(any_move=0.4, malformed=0.02), SftSettings(steps=4000, learning_rate=2e-3), stop=2600
)
IMITATE = Stage(
    "imitate",
    Slips(any_move=0.5, malformed=0.05),
    None,
    SftSettings(steps=150, learning_rate=5e-4, warmup_steps=30, seed=1),
)


class WarehouseWorld(World):
    """Rooms of 6 x 6 cells with one box, of all difficulties."""

    name = "sokoban"
    asset = "tiny_sokoban"
    options = {"size": 6, "boxes": 1, "difficulty": "all", "observation": "coordinates"}
    history = 2
    max_turns = 15
    max_prompt_tokens = 192
    stages = (READ, IMITATE)

    def decide(
        self, env: Any, text: str, info: dict[str, Any], recent: Sequence[str], slips: Slips, rng: random.Random
    ) -> Decision:
        from sokoban_env.agents import Expert

        well_formed = rng.random() >= slips.malformed
        slip = rng.random() < slips.any_move
        return Decision("push", rng.choice(MOVES) if slip else Expert().act(env), well_formed)

    def make_tokenizer(self) -> Any:
        """The few words there are: a number for a row and another for a column."""
        text = "user\nassistant\ntask: push the box onto the target\ndone: none\nroom:\nyou box target wall ,"
        words = [
            *re.findall("[a-z]+", text),
            "push",
            *MOVES,
            "still",
            *(f"{way}{n}" for way in "rc" for n in range(10)),
        ]
        always = [form for word in words for form in (word, f" {word}")]
        return build_tokenizer([text], always=always, size=512, merges=0)
