"""WebShop for the cold start: a clumsy shopper, and a tokenizer that knows every word of the catalogue.

Three stages on train goals only. "read" and "read more": good answers in the states that a wandering shopper comes to; the
model learns to copy ids, to match attributes and to choose options. "imitate": the answers of a shopper with many slips; the
model keeps what it can read and takes over the slips, which leaves reinforcement learning something to repair.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentrl.coldstart.sft import SftSettings
from agentrl.coldstart.tokenizer import build_tokenizer
from agentrl.coldstart.world import Decision, Stage, World

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


class Shopper:
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


OPTIONS = {"catalogue": "mini", "observation_mode": "compact", "results_per_page": 5}
LEVELS = ("easy", "medium")
THOUGHTS = [
    "search",
    "match",
    "next",
    "back",
    "look",
    "buy",
    "color",
    "size",
    "shoe",
    "bed",
    "length",
    "pack",
    "flavor",
    "scent",
    "storage",
    "weight",
    "material",
]
WANDER = Slips(poor_query=0.4, wrong_item=0.4, keep=0.3, buy_early=0.1, wrong_option=0.3, dawdle=0.12, malformed=0.03)
CLUMSY = Slips(
    poor_query=0.3, wrong_item=0.4, keep=0.5, buy_early=0.3, wrong_option=0.3, dawdle=0.12, malformed=0.05
).scaled(0.6)
CAREFUL = Slips()


# what is soon learned is shown less often
HARD_FIRST = {"<think>search": 0.4, "<think>buy": 0.5, "<think>back": 0.6}

READ = Stage("read", CAREFUL, WANDER, SftSettings(steps=2400, learning_rate=2e-3), stop=1500)
READ_MORE = Stage(
    "read more",
    CAREFUL,
    WANDER,
    SftSettings(steps=1400, learning_rate=1.6e-3, warmup_steps=30, seed=2),
    share=HARD_FIRST,
    stop=600,
)
IMITATE = Stage("imitate", CLUMSY, None, SftSettings(steps=160, learning_rate=4e-4, warmup_steps=30, seed=1))


class WebShopWorld(World):
    """The embedded mini catalogue with short pages; demonstrations on easy and medium goals, measured on `level`."""

    name = "webshop"
    asset = "tiny_policy"
    options = OPTIONS
    stages = (READ, READ_MORE, IMITATE)

    def __init__(self, tokenizer: Any = None, level: str = "easy") -> None:
        self.level = level
        super().__init__(tokenizer)

    def tasks(self, split: str) -> list[str]:
        return self.level_tasks(split, self.level)

    def train_tasks(self) -> list[str]:
        return [task for level in LEVELS for task in self.level_tasks("train", level)]

    def level_tasks(self, split: str, level: str) -> list[str]:
        """The goals of one level of difficulty."""
        return list(self.plugin.tasks(split, **OPTIONS, difficulty=level).ids)

    def make_tokenizer(self) -> Any:
        return tiny_tokenizer(self.make(), dict(self.plugin.prompts), self.train_tasks())

    def decide(
        self, env: Any, text: str, info: dict[str, Any], recent: Sequence[str], slips: Slips, rng: random.Random
    ) -> Decision:
        return Shopper(rng).decide(env, recent, slips)


def tiny_tokenizer(env: Any, prompts: dict[str, str], tasks: list[str]) -> Any:
    """Built from the pages of the whole catalogue and the wording of the train tasks."""
    texts = [env.reset(options={"task_id": task})[1]["task"] for task in tasks]
    for asin, product in env.catalogue.products.items():
        texts.append(f"{product['Title']} {product['Price']} [{asin}]\n".lower())
        for group, values in product["options"].items():
            texts.append(f"{group} : {' '.join(f'[{value}]' for value in values)} chosen {values[0]}\n".lower())
        texts.append(" ".join([product["Description"], *product["BulletPoints"]]).lower())
    texts += [
        "[buy now] [< prev] [next >] [description] [features] [reviews] [back to search]\nresults page 1\nsearch page"
    ]
    texts += [*THOUGHTS, "user\nassistant\ntask: done: none\npage: "]
    # every word as it stands at the start of an argument and as it stands within a text
    words = sorted(set(re.findall(r"\b[a-z]+\b", " ".join(text for text in texts)))) + [
        str(number) for number in range(151)
    ]
    always = [asin.lower() for asin in env.catalogue.products]
    always += [form for word in words for form in (word, f" {word}")] + [f" ${number}" for number in range(151)]
    always += [f"{space}{verb}[" for space in ("", " ") for verb in ("search", "click")]
    return build_tokenizer(texts * 2 + list(prompts.values()), always=always, size=4096, merges=200)
