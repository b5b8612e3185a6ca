"""Prompt templates: text with slots. An environment brings its own; these two serve any environment that does not."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

SLOTS = (
    "task",
    "history",
    "action_history",
    "history_length",
    "step",
    "current_step",
    "observation",
    "admissible_actions",
)
"""task: the goal in words. history: the last k observations and actions. action_history: the last k actions alone.
history_length: how many of them are shown. step: turns taken so far. current_step: step + 1. observation: the page.
admissible_actions: one a line ("any" where the environment does not list them)."""

# What stays the same for a whole trajectory comes first and the page last, so that a prefix cache can help.
GENERIC = {
    "compact": "task: {task}\nlast actions: {action_history}\n{observation}",
    "paper": (
        "You are an agent acting in a text environment, one action at a time.\n"
        "Your task: {task}\n\n"
        "First reason about what to do next, inside <think> </think>. Then give exactly one action, "
        "inside <action> </action>.\n\n"
        "You have taken {step} actions so far. The last {history_length} observations and the actions you took:\n"
        "{history}\n\n"
        "Actions that are possible now:\n{admissible_actions}\n\n"
        "You are at step {current_step}. What you see now:\n{observation}"
    ),
}

_SLOT = re.compile(r"\{\{|\}\}|\{([A-Za-z_]+)\}")


class Template:
    """A template text, checked once and filled many times. Values are put in as they are: braces in them stay.

    `{{` and `}}` in the template stand for single braces; other braces that hold no name stay as they are.
    Raises ValueError for a slot that does not exist, naming the nearest.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        for match in _SLOT.finditer(text):
            slot = match.group(1)
            if slot is not None and slot not in SLOTS:
                near = difflib.get_close_matches(slot, SLOTS, n=1, cutoff=0.4)
                hint = f"did you mean {{{near[0]}}}?" if near else f"slots are {', '.join(SLOTS)}."
                raise ValueError(f"prompt template {name}: there is no slot {{{slot}}}; {hint}")

    def fill(self, values: Mapping[str, str]) -> str:
        # one pass over the template only: a value that looks like a slot is never taken for one
        def replace(match: re.Match[str]) -> str:
            slot = match.group(1)
            return values[slot] if slot is not None else match.group(0)[0]

        return _SLOT.sub(replace, self.text)


def find_template(name: str, prompts: Mapping[str, str]) -> tuple[Template, Template]:
    """(template, template of the first turn) called `name`: the environment's own, else a generic one.

    An environment may give `NAME_first` for the turn that has no history yet; otherwise both are the same.
    Raises ValueError naming what there is.
    """
    text = prompts.get(name, GENERIC.get(name))
    if text is None:
        known = sorted({*prompts, *GENERIC})
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}."
        raise ValueError(f"prompt={name}: the environment has no such template; {hint}")
    template = Template(name, text)
    first = prompts.get(f"{name}_first")
    return template, Template(f"{name}_first", first) if first is not None else template
