"""Scripted players: one that knows the way, one that errs, one that knows nothing."""

from __future__ import annotations

import random
from dataclasses import dataclass

from sokoban_env.env import SokobanEnv
from sokoban_env.room import MOVES
from sokoban_env.search import solution


class Expert:
    """Takes the first move of a shortest solution; `still` where there is none any more."""

    def act(self, env: SokobanEnv) -> str:
        assert env.room is not None
        moves = solution(env.room, env.state)
        return moves[0] if moves else "still"


@dataclass
class NoisyAgent:
    """The expert, who with probability `slips` makes any move."""

    rng: random.Random
    slips: float = 0.3

    def act(self, env: SokobanEnv) -> str:
        return self.rng.choice(MOVES) if self.rng.random() < self.slips else Expert().act(env)


@dataclass
class RandomAgent:
    rng: random.Random

    def act(self, env: SokobanEnv) -> str:
        return self.rng.choice(MOVES)
