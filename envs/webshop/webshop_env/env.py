"""WebShop as a Gymnasium environment: text in, text out, one page at a time."""

from __future__ import annotations

import re
import string
from dataclasses import replace
from typing import Any

import gymnasium

from webshop_env.data import open_data
from webshop_env.goalbook import Goal
from webshop_env.options import parse_options
from webshop_env.pages import SUB_PAGES, Page, shared_renderer
from webshop_env.reward import purchase_reward

ACTION = re.compile(r"(.+)\[(.+)\]")  # the original's grammar: greedy, one line, anything may follow
SEARCH_HINT = "search[<query>]"


class FreeText(gymnasium.Space[str]):
    """All strings."""

    def __init__(self) -> None:
        super().__init__(shape=(), dtype=None)

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A few random lower-case letters."""
        return "".join(string.ascii_lowercase[i] for i in self.np_random.integers(26, size=8))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)


class WebShopEnv(gymnasium.Env[str, str]):
    """Buy what the task asks for. Actions are `search[words]` and `click[text]`; buying ends the episode.

    The reward is that of the original, 0..1, at the purchase, and 0 before. An action that cannot be read, or a click
    on what is not there, leaves the page as it is. There is no limit of steps. As in the original, a search is accepted
    on any page, and searching or going back to the results clears the chosen options.

    Options (ValueError for any other name or a value that is not allowed):
        observation_mode: "text" (default), "text_rich" or "compact"; see webshop_env.pages.
        results_per_page: 10. max_results: 50, of one search.
        difficulty: "all" (default), "easy", "medium", "hard", several with commas between, or a list; see
            webshop_env.goals. split: "train" (default), "validation", "test". Both only say which task a reset without
            task_id draws.
        show_attrs: False; True adds the original's page of attributes.
        catalogue: "embedded" (default), generated products that come with the package (6,000 in 24 categories, prepared in the
            user's cache at first use), or "mini" (1,400 in 14).
        data_dir: None; a folder that `python -m webshop_env.prepare` has made, of WebShop's own files or of generated products.
        pages: "faithful" (default), the original's, quirks included; "clean": `Next >` only where there are further
            results, searching only on the search page, chosen options marked in `text` too.

    info, at reset and at every step: task, task_type (the difficulty), state_key, admissible_actions, success (reward
    1), score (the reward), action_valid, action_effective (the state changed). After the purchase also purchased and
    reward_parts.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}

    def __init__(self, render_mode: str | None = None, **options: Any) -> None:
        if render_mode not in (None, "ansi"):
            raise ValueError(f"render_mode is {render_mode!r}: use 'ansi' or none.")
        self.render_mode = render_mode
        self.options = parse_options(options)
        self.observation_space = FreeText()
        self.action_space = FreeText()
        self.catalogue, self.goals = open_data(self.options.catalogue, self.options.data_dir)
        self.renderer = shared_renderer(
            self.catalogue,
            self.options.observation_mode,
            self.options.results_per_page,
            self.options.max_results,
            self.options.show_attrs,
            self.options.pages,
        )
        self.goal: Goal | None = None
        self.page = Page("done")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        """Start the task `options["task_id"]` ("train/000123"), or one drawn with the seed. ValueError if unknown."""
        super().reset(seed=seed)
        options = dict(options or {})
        task_id = options.pop("task_id", None)
        if options:
            raise ValueError(f"reset has no option {next(iter(options))!r}: the only one is 'task_id'.")
        if task_id is None:
            ids = self.goals.tasks(self.options.split, self.options.levels).ids
            task_id = ids[int(self.np_random.integers(len(ids)))]
        self.goal = self.goals.goal(task_id)
        self.page = Page("search")
        return self._observation(self.goal), self._info(self.goal, valid=True, effective=True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """One action. Raises RuntimeError before the first reset and after the purchase, TypeError if not a string."""
        if not isinstance(action, str):
            raise TypeError(
                f"the action is of type {type(action).__name__}: give a string such as 'search[red shoes]'."
            )
        goal, before = self.goal, self.page
        if goal is None or before.kind == "done":
            raise RuntimeError("there is no running episode: call reset first.")
        after = self._after(action)
        if after is None:
            return self._observation(goal), 0.0, False, False, self._info(goal, valid=False, effective=False)
        self.page = after
        if after.kind == "done":
            return self._purchase(goal)
        effective = after.state_key != before.state_key
        return self._observation(goal), 0.0, False, False, self._info(goal, valid=True, effective=effective)

    def render(self) -> str:  # type: ignore[override]
        """The page as it is observed; an empty string before the first reset."""
        return self._observation(self.goal) if self.goal is not None else ""

    def close(self) -> None:
        """End the episode. Nothing else is held; the catalogue is shared and stays."""
        self.goal, self.page = None, Page("done")

    def admissible_actions(self) -> list[str]:
        """What can be done on the page; a search with words of one's own is shown as `search[<query>]`."""
        clicks = [f"click[{text}]" for text in self.renderer.clickables(self.page) if text != "search"]
        return [*clicks, SEARCH_HINT] if self.page.kind == "search" else clicks

    def _after(self, action: str) -> Page | None:
        """The page that an action leads to, or None if the action is not valid here."""
        match = ACTION.match(action)
        if match is None:
            return None
        name, argument = match.group(1), match.group(2).lower()
        if name == "search" and (self.options.pages == "faithful" or self.page.kind == "search"):
            return Page("results", query=argument, opened=self.page.opened)
        role = self.renderer.clickables(self.page).get(argument) if name == "click" else None
        if role is None or argument == "search":
            return None
        page = self.page
        if role == "product":
            asin = argument.upper()
            return replace(page, kind="item", asin=asin, choices=(), opened=page.opened | {asin})
        if role == "button":
            return self._press(argument)
        group = role.removeprefix("option:")
        return replace(page, choices=tuple((dict(page.choices) | {group: argument}).items()))

    def _press(self, button: str) -> Page:
        page = self.page
        if button == "back to search":
            return Page("search")
        if button == "buy now":
            return replace(page, kind="done")
        if button == "next >":
            return replace(page, number=page.number + 1)
        if button != "< prev":
            return replace(page, kind=button)
        if page.kind in SUB_PAGES:
            return replace(page, kind="item")
        if page.kind == "item":
            return replace(page, kind="results", asin="", choices=())
        return replace(page, number=page.number - 1)

    def _purchase(self, goal: Goal) -> tuple[str, float, bool, bool, dict[str, Any]]:
        product = self.catalogue.products[self.page.asin]
        price = self.catalogue.prices[self.page.asin]
        choices = dict(self.page.choices)
        reward, parts = purchase_reward(
            product, goal, price, choices, goal_nouns=goal["nouns"], purchased_nouns=product["nouns"]
        )
        info = self._info(goal, valid=True, effective=True, score=reward)
        info["purchased"] = {"asin": self.page.asin, "price": price, "options": choices}
        info["reward_parts"] = parts
        return self._observation(goal), reward, True, False, info

    def _observation(self, goal: Goal) -> str:
        return self.renderer.text(self.page, goal["instruction_text"])

    def _info(self, goal: Goal, *, valid: bool, effective: bool, score: float = 0.0) -> dict[str, Any]:
        return {
            "task": goal["instruction_text"],
            "task_type": goal["difficulty"],
            "state_key": self.page.state_key,
            "admissible_actions": self.admissible_actions(),
            "success": score == 1.0,
            "score": score,
            "action_valid": valid,
            "action_effective": effective,
        }
