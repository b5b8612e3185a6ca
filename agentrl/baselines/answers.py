"""From the answer of a prompted model to an action: its one line (direct), or the line `Action:` (ReAct)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agentrl.baselines.prompts import DIRECT, REACT
from agentrl.episode.parse import INVALID, Parsed, between

# Answers are whatever a model says, however long: each of these reads a text once. Possessive (`*+`), since no two
# neighbouring parts share a character, so that there is nothing to try again; a label begins where its marks begin.
_MARKS = r"[\s*_#>`-]"
_LABEL = r"{}\s*+\d*+\s*+[*_]*+\s*+:[*_]*+"
_ACTION = re.compile(_MARKS + "*+" + _LABEL.format("action") + r"[ \t]*+(.*)", re.IGNORECASE)
_THOUGHT = re.compile(f"(?<!{_MARKS}){_MARKS}*+" + _LABEL.format("thought"), re.IGNORECASE)
_FENCE = re.compile(r"\s*+```\w*+\s*+")


def direct_action(text: str) -> Parsed:
    """The first line that is not empty, without a label, quotation marks or a code fence; lower-cased as in training."""
    thought, rest, reason = _without_thought(text)
    if reason:
        return Parsed(INVALID, thought, False, reason)
    tagged, _ = between(rest, "action", most=1)
    if tagged:
        return _parsed(tagged[0], thought)
    for line in rest.splitlines():
        if line.strip() and not _FENCE.fullmatch(line):
            labelled = _ACTION.fullmatch(line)
            if labelled and not labelled.group(1).strip():
                continue  # a label alone: the action is on the next line
            return _parsed(labelled.group(1) if labelled else line, thought)
    return Parsed(INVALID, thought, False, "an empty answer")


def react_action(text: str) -> Parsed:
    """What stands behind the first `Action:`; the thought is what stands before it. What follows is not read: models go
    on and invent what they see next."""
    thought, rest, reason = _without_thought(text)
    if reason:
        return Parsed(INVALID, thought, False, reason)
    lines = rest.splitlines()
    for number, line in enumerate(lines):
        found = _ACTION.fullmatch(line)
        if found is None:
            continue
        said = _THOUGHT.sub("", "\n".join(lines[:number]), count=1).strip()
        behind = [found.group(1), *lines[number + 1 :]]
        action = next((part for part in behind if part.strip() and not _FENCE.fullmatch(part)), "")
        return _parsed(action, said or thought)
    return Parsed(INVALID, thought or rest.strip(), False, "no line that begins with Action:")


@dataclass(frozen=True)
class Style:
    """How a model is to answer (in words), how its answer is read, and how it is shown the answer later."""

    words: str
    parse: Callable[[str], Parsed]
    remember: Callable[[Parsed], str]


STYLES = {
    "direct": Style(DIRECT, direct_action, lambda parsed: parsed.action),
    "react": Style(REACT, react_action, lambda parsed: f"Thought: {parsed.thought}\nAction: {parsed.action}"),
}


def _without_thought(text: str) -> tuple[str, str, str]:
    """(thought, the rest, why there is no rest). A thought is what a reasoning model thinks before it answers, where the
    endpoint does not keep it apart."""
    thoughts, rest = between(text, "think")
    thought = "\n".join(part.strip() for part in thoughts)
    if "<think>" in rest.lower():
        return rest.lower().partition("<think>")[2].strip(), "", "cut while it was thinking"
    return thought, rest.rpartition("</think>")[2], ""  # some endpoints leave the opening tag out


def _parsed(action: str, thought: str) -> Parsed:
    action = action.strip(" \t`\"'*.").lower()
    return Parsed(action, thought, True) if action else Parsed(INVALID, thought, False, "an empty action")
