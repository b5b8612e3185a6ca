"""What this package offers to a trainer (entry point group `agentrl.environments`)."""

from __future__ import annotations

from typing import Any

from webshop_env.data import open_data
from webshop_env.env import WebShopEnv
from webshop_env.goalbook import Tasks
from webshop_env.options import parse_options

env_id = "WebShop-v0"


def make(**options: Any) -> WebShopEnv:
    """A new environment; see WebShopEnv for the options. Raises ValueError for an unknown option or value."""
    return WebShopEnv(**options)


def tasks(split: str, **options: Any) -> Tasks:
    """The tasks of a split (`ids`, in a fixed order, of the difficulty asked for) and the data's `fingerprint`."""
    parsed = parse_options(options)
    _, goals = open_data(parsed.catalogue, parsed.data_dir)
    return goals.tasks(split, parsed.levels)


prompts = {
    "compact": "task: {task}\ndone: {action_history}\npage: {observation}",
    "paper": """You are a shopping agent in the WebShop online store. You search for products, look at them, choose \
the options that the customer wants, and buy one.
The customer's task: {task}
You have taken {step} step(s) so far. Your last {history_length} observations and actions were:
{history}
This is step {current_step}. The page in front of you:
{observation}
Actions that you can take on this page:
[
{admissible_actions}
]

It is your turn. Think first, step by step: what does the task ask for, what does the page show, and which action brings
you closer? Put these thoughts inside <think> </think>. Then choose exactly one of the actions above for this step and
put it inside <action> </action>.""",
}
