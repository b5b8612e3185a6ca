"""What the cold start needs of an environment: its tasks, a tokenizer, and somebody who plays it, imperfectly.

A player decides from what the prompt shows, so that a policy which sees no more can learn to do the same. It may slip; two
kinds of slips are drawn, one for the action that is written down as the answer and one for the action that is played. With
many slips in what is played and few in what is written, the records cover states that a good player never sees, with good
answers to them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agentrl.coldstart.sft import Record, SftSettings
from agentrl.episode.parse import INVALID, ActionParser
from agentrl.episode.prompt import WindowRenderer


@dataclass(frozen=True)
class Decision:
    """A one-word thought and an action; `well_formed` False leaves the thought out, which the parser refuses."""

    thought: str
    action: str
    well_formed: bool = True

    @property
    def response(self) -> str:
        if self.well_formed:
            return f"<think>{self.thought}</think><action>{self.action}</action>"
        return f"<action>{self.action}</action>"


@dataclass(frozen=True)
class Stage:
    """One stage of supervised fine-tuning on demonstrations that are made as they are needed."""

    name: str
    written: Any  # slips, of the kind that the world's player takes
    played: Any | None  # None: what is written is played
    sft: SftSettings
    share: dict[str, float] = field(default_factory=dict)  # of the records whose answer begins so, what is kept
    stop: int | None = None  # ends here, in the midst of its schedule
    episodes: int | None = None  # so many are made, then drawn from again: for an environment that is slow to play


class World:
    """An environment as the tiny policy meets it. Subclasses give the fields and the methods that raise here."""

    name = ""
    asset = ""  # folder under agentrl/assets
    options: dict[str, Any] = {}
    history = 2
    max_turns = 10
    max_prompt_tokens = 960
    stages: tuple[Stage, ...] = ()

    def __init__(self, tokenizer: Any = None) -> None:
        from agentrl.environments.registry import load_environment

        self.plugin = load_environment(self.name)
        if tokenizer is None:
            tokenizer = self.make_tokenizer()
        self.renderer = WindowRenderer(
            tokenizer,
            self.plugin.prompts,
            "compact",
            history_length=self.history,
            max_prompt_tokens=self.max_prompt_tokens,
        )
        self.pool: list[Any] = []  # environments kept for evaluation

    def make(self) -> Any:
        """A fresh environment."""
        return self.plugin.make(**self.options)

    def tasks(self, split: str) -> list[str]:
        """The tasks that the policy is measured on."""
        return list(self.plugin.tasks(split, **self.options).ids)

    def train_tasks(self) -> list[str]:
        """The tasks that demonstrations are made of."""
        return self.tasks("train")

    def make_tokenizer(self) -> Any:
        """A tokenizer for the texts of this world."""
        raise NotImplementedError

    def decide(
        self, env: Any, text: str, info: dict[str, Any], recent: Sequence[str], slips: Any, rng: random.Random
    ) -> Decision:
        """What the player does now, given the last actions that the prompt shows."""
        raise NotImplementedError


def demonstrate(
    world: World, env: Any, task_id: str, rng: random.Random, written: Any, played: Any
) -> tuple[list[Record], bool]:
    """One episode: its records, one a turn, and whether it ended in success."""
    parser = ActionParser()
    observation, info = env.reset(seed=rng.getrandbits(31), options={"task_id": task_id})
    conversation = world.renderer.start(info["task"])
    actions: list[str] = []
    records = []
    for _ in range(world.max_turns):
        prompt = conversation.prompt(observation, info["admissible_actions"])
        if prompt is None:
            break
        recent = actions[-world.history :] if world.history else []
        decision = world.decide(env, observation, info, recent, written, rng)
        records.append(Record([{"role": "user", "content": prompt.text}], decision.response))
        if written is not played:
            decision = world.decide(env, observation, info, recent, played, rng)
        action = parser(decision.response).action
        before = observation
        if action != INVALID:
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        actions.append(action)
        conversation.add(before, action, [])
    return records, bool(info["success"])
