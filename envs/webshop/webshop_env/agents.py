"""Scripted shoppers: one that knows how, one that errs, one that knows nothing.

They act on what the page shows, on the task, and on a hidden judgement whether a product can fulfil the task; they keep
no memory, so that a policy which sees only the page can learn to do what they do.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from webshop_env.env import WebShopEnv
from webshop_env.goalbook import Goal
from webshop_env.goals import fulfilling_options
from webshop_env.options_of import best_options


class Agent(Protocol):
    """Chooses the next action of the environment's running episode."""

    def act(self, env: WebShopEnv) -> str: ...


def fulfils(env: WebShopEnv, asin: str) -> bool:
    """Whether the running task can be fulfilled with this product."""
    assert env.goal is not None
    return fulfilling_options(env.catalogue.products[asin], env.catalogue.prices[asin], env.goal) is not None


def full_query(goal: Goal) -> str:
    """Attributes and type as they stand together in the task, then the wanted option values."""
    options = goal["goal_options"]
    values = options.values() if isinstance(options, Mapping) else options
    return f"{attributes_query(goal)} {' '.join(values)}".strip()


def attributes_query(goal: Goal) -> str:
    """Attributes and type as they stand together in the task, without the commas."""
    return f"{' '.join(goal['attributes'])} {goal['query']}"


class Expert:
    """Searches with all that the task asks for, opens the first product that will do, chooses the options and buys."""

    def act(self, env: WebShopEnv) -> str:
        goal, page = env.goal, env.page
        assert goal is not None
        if page.kind == "search":
            return f"search[{full_query(goal)}]"
        if page.kind == "results":
            shown = env.renderer.shown(page)
            good = next((asin for asin in shown if fulfils(env, asin)), None)
            if good is not None:
                return f"click[{good.lower()}]"
            if page.number * env.renderer.results_per_page < len(env.renderer.results(page)):
                return "click[next >]"
            return f"search[{goal['query']}]" if page.query != goal["query"] else "click[back to search]"
        if page.kind == "item":
            if not fulfils(env, page.asin):
                return "click[< prev]"
            missing = missing_options(env)
            return f"click[{missing[0][1]}]" if missing else "click[buy now]"
        return "click[< prev]"


def missing_options(env: WebShopEnv) -> list[tuple[str, str]]:
    """Wanted (group, value) pairs that the open product offers and that are not chosen yet, in the page's order."""
    assert env.goal is not None
    product, chosen = env.catalogue.products[env.page.asin], dict(env.page.choices)
    wanted = best_options(product, env.goal)
    return [
        (group, wanted[group]) for group in product["options"] if group in wanted and chosen.get(group) != wanted[group]
    ]


@dataclass
class NoisyAgent:
    """The expert with slips. Each number is the probability of one slip, drawn anew whenever it could happen.

    poor_query: searches for the type alone. wrong_item: opens another product of the page. keep: on a product that will
    not do, goes on as if it did. skip_option: leaves a wanted option out. wrong_option: chooses another value of the
    group. buy_early: buys before choosing. useless_page: opens a page that does not help. malformed: says something
    that is no action.
    """

    rng: random.Random
    poor_query: float = 0.25
    wrong_item: float = 0.4
    keep: float = 0.8
    skip_option: float = 0.2
    wrong_option: float = 0.15
    buy_early: float = 0.15
    useless_page: float = 0.04
    malformed: float = 0.03

    def act(self, env: WebShopEnv) -> str:
        goal, page = env.goal, env.page
        assert goal is not None
        right = Expert().act(env)
        if self._slips(self.malformed):
            return self.rng.choice(["buy now", "click[]", f"click {goal['query']}", f"search {goal['query']}"])
        if page.kind == "search" and self._slips(self.poor_query):
            return f"search[{goal['query']}]"
        if page.kind == "results":
            others = [a for a in (f"click[{asin.lower()}]" for asin in env.renderer.shown(page)) if a != right]
            if others and self._slips(self.wrong_item):
                return self.rng.choice(others)
        if page.kind == "item":
            return self._on_item(env, right)
        return right

    def _on_item(self, env: WebShopEnv, right: str) -> str:
        if self._slips(self.useless_page):
            return f"click[{self.rng.choice(env.renderer.sub_pages)}]"
        missing = missing_options(env)
        if right == "click[< prev]":
            if not self._slips(self.keep):
                return right
            right = f"click[{missing[0][1]}]" if missing else "click[buy now]"
        if not missing:
            return right
        if self._slips(self.buy_early):
            return "click[buy now]"
        if self._slips(self.skip_option):
            return f"click[{missing[1][1]}]" if len(missing) > 1 else "click[buy now]"
        group, value = missing[0]
        others = [other for other in env.catalogue.products[env.page.asin]["options"][group] if other != value]
        if others and self._slips(self.wrong_option):
            return f"click[{self.rng.choice(others)}]"
        return right

    def _slips(self, probability: float) -> bool:
        return self.rng.random() < probability


@dataclass
class RandomAgent:
    """Searches for some words of the task, then clicks on anything."""

    rng: random.Random

    def act(self, env: WebShopEnv) -> str:
        assert env.goal is not None
        if env.page.kind == "search":
            words = env.goal["instruction_text"].split()
            return f"search[{' '.join(self.rng.sample(words, min(3, len(words))))}]"
        return f"click[{self.rng.choice(list(env.renderer.clickables(env.page)))}]"


def play(env: WebShopEnv, agent: Agent, task_id: str, max_turns: int = 15) -> tuple[float, int]:
    """The final reward (0 without a purchase) and the number of turns of one episode."""
    env.reset(options={"task_id": task_id})
    for turn in range(1, max_turns + 1):
        _, reward, terminated, _, _ = env.step(agent.act(env))
        if terminated:
            return reward, turn
    return 0.0, max_turns
