"""Scripted, imperfect shopping in `webshop_env`, written down as (messages, response) records.

The demonstrator decides from what the prompt shows (the task, the page, the last two actions), so that a policy which
sees no more can learn to do the same. Every decision may slip, independently of the others; the right choice always
stays the most likely one. Two kinds of slips are drawn: one for the action that is written down as the answer, one for
the action that is played. With many slips in what is played and few in what is written, the records cover states that
a good shopper never sees, with good answers to them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentrl.coldstart.sft import Record
from agentrl.episode.parse import INVALID, ActionParser

MAX_PAGES = 3  # of one search, before going back to the search page


@dataclass(frozen=True)
class Slips:
    """Probabilities of the slips, each drawn anew whenever it could happen.

    poor_query: searches for the type alone. wrong_item: opens a product that does not match, or turns the page.
    keep: goes on with a product that will not do. buy_early: buys before choosing a wanted option. wrong_option:
    chooses another value. dawdle: takes a step that is legal and does not help. malformed: breaks the format.
    """

    poor_query: float = 0.0
    wrong_item: float = 0.0
    keep: float = 0.0
    buy_early: float = 0.0
    wrong_option: float = 0.0
    dawdle: float = 0.0
    malformed: float = 0.0

    def scaled(self, factor: float) -> Slips:
        return replace(self, **{name: min(0.9, value * factor) for name, value in vars(self).items()})


@dataclass(frozen=True)
class Decision:
    thought: str
    action: str
    well_formed: bool = True

    @property
    def response(self) -> str:
        if self.well_formed:
            return f"<think>{self.thought}</think><action>{self.action}</action>"
        return f"<action>{self.action}</action>"


class Demonstrator:
    """Decides on the running episode of a WebShop environment, given the last actions that the prompt shows."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def decide(self, env: Any, recent: Sequence[str], slips: Slips) -> Decision:
        decision = self._decide(env, recent, slips)
        return replace(decision, well_formed=False) if self._slip(slips.malformed) else decision

    def _decide(self, env: Any, recent: Sequence[str], slips: Slips) -> Decision:
        kind = env.page.kind
        if kind == "search":
            goal = env.goal
            words = [] if self._slip(slips.poor_query) else goal["attributes"]
            options = [] if self._slip(slips.poor_query) else list(goal["goal_options"].values())
            return Decision("search", f"search[{' '.join([*words, goal['query'], *options])}]")
        if self._slip(slips.dawdle):
            return Decision("look", f"click[{self.rng.choice(self._useless(env))}]")
        if kind == "results":
            return self._on_results(env, recent, slips)
        if kind == "item":
            return self._on_item(env, slips)
        return Decision("back", "click[< prev]")

    def _on_results(self, env: Any, recent: Sequence[str], slips: Slips) -> Decision:
        shown = [asin.lower() for asin in env.renderer.shown(env.page)]
        fresh = [asin for asin in shown if f"click[{asin}]" not in recent]
        good = [asin for asin in fresh if matches(env, asin.upper())]
        bad = [asin for asin in shown if asin not in good]
        if self._slip(slips.wrong_item):
            return Decision("match", f"click[{self.rng.choice(bad)}]") if bad else Decision("next", "click[next >]")
        if good:
            return Decision("match", f"click[{self.rng.choice(good)}]")
        if shown and env.page.number < MAX_PAGES:
            return Decision("next", "click[next >]")
        return Decision("back", "click[back to search]")

    def _on_item(self, env: Any, slips: Slips) -> Decision:
        offered = env.catalogue.products[env.page.asin]["options"]
        wanted, chosen = env.goal["goal_options"], dict(env.page.choices)
        fits = matches(env, env.page.asin) and all(value in offered.get(group, ()) for group, value in wanted.items())
        if not fits and not self._slip(slips.keep):
            return Decision("back", "click[< prev]")
        missing = [group for group in offered if group in wanted and chosen.get(group) != wanted[group]]
        missing = [group for group in missing if wanted[group] in offered[group]]
        if not missing or self._slip(slips.buy_early):
            return Decision("buy", "click[buy now]")
        group = missing[0]
        others = [value for value in offered[group] if value != wanted[group]]
        if others and self._slip(slips.wrong_option):
            return Decision(group.split()[0], f"click[{self.rng.choice(others)}]")
        return Decision(group.split()[0], f"click[{wanted[group]}]")

    def _useless(self, env: Any) -> list[str]:
        if env.page.kind == "results":
            return ["back to search", "next >"]
        if env.page.kind == "item":
            return [*env.renderer.sub_pages, "back to search"]
        return ["back to search"]

    def _slip(self, probability: float) -> bool:
        return self.rng.random() < probability


def matches(env: Any, asin: str) -> bool:
    """Whether the line of a product on a results page fits the task: type, attributes in the title, price."""
    product, goal = env.catalogue.products[asin], env.goal
    title = product["Title"].lower()
    return (
        product["query"] == goal["query"]
        and all(attribute in title for attribute in goal["attributes"])
        and env.catalogue.prices[asin] <= goal["price_upper"]
    )


def demonstrate(
    env: Any, renderer: Any, task_id: str, rng: random.Random, written: Slips, played: Slips, max_turns: int = 10
) -> tuple[list[Record], bool]:
    """One episode: its records, one a turn, and whether it ended in success."""
    demonstrator, parser = Demonstrator(rng), ActionParser()
    observation, info = env.reset(seed=rng.getrandbits(31), options={"task_id": task_id})
    conversation = renderer.start(info["task"])
    actions: list[str] = []
    records = []
    for _ in range(max_turns):
        prompt = conversation.prompt(observation, info["admissible_actions"])
        if prompt is None:
            break
        recent = actions[-renderer.history_length :]
        decision = demonstrator.decide(env, recent, written)
        records.append(Record([{"role": "user", "content": prompt.text}], decision.response))
        if written is not played:
            decision = demonstrator.decide(env, recent, played)
        action = parser(decision.response).action
        before = observation
        if action != INVALID:
            observation, _, terminated, truncated, info = env.step(action)
            if terminated or truncated:
                break
        actions.append(action)
        conversation.add(before, action, [])
    return records, bool(info["success"])
