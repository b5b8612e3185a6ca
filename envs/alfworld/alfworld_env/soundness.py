"""What is wrong with a public game, as far as its text tells: a millisecond a game, so that a list of 3,500 takes seconds.

Whether the goal can be reached is not asked; the marks in the data (`solvable`) say so.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_COMMENT = re.compile(r";[^\n]*")  # as Fast Downward reads it; it knows no strings
_BRACKET = re.compile(r"[()]")
_PARTS = {
    part: re.compile(rf"\(\s*{words}(?=[\s()])")
    for part, words in (("(define (problem", r"define\s*\(\s*problem"), (":init", ":init"), (":goal", ":goal"))
}
_TYPED = re.compile(r"\(\s*(objecttype|receptacletype)\s+[^\s()]+\s+([^\s()]+)\s*\)")


def fault(data: Any) -> str:
    """What keeps a game (a game.tw-pddl) from being played, or ""."""
    if not isinstance(data, dict):
        return "it is not a JSON object"
    for part in ("pddl_domain", "pddl_problem", "grammar"):
        if not isinstance(data.get(part), str):
            return f"it has no text {part}"
    if "Your task is to: " not in data["grammar"]:
        return "its grammar names no task"
    if not _domain_is_whole(data["pddl_domain"]):
        return "the brackets of its pddl_domain do not match"
    # TextWorld plays games without one, and the generated games have null
    steps = data.get("walkthrough")
    if steps is not None and not (isinstance(steps, list) and all(isinstance(step, str) for step in steps)):
        return "its walkthrough is not a list of commands"
    return _fault_of_problem(data["pddl_problem"])


def _fault_of_problem(source: str) -> str:
    text = _COMMENT.sub("", source).lower()
    found = {part: pattern.search(text) for part, pattern in _PARTS.items()}
    for part, place in found.items():
        if place is None:
            return f"its pddl_problem has no {part}"
    if not _balanced(text):
        return "the brackets of its pddl_problem do not match"
    init, goal = (place.start() for part, place in found.items() if place and part.startswith(":"))
    facts, wanted = (text[init:goal], text[goal:]) if init < goal else (text[init:], text[goal:init])
    types = set(_TYPED.findall(wanted))
    if not any(predicate == "objecttype" for predicate, _ in types):
        return "its goal names no object"
    if types - set(_TYPED.findall(facts)):
        return "its room lacks what its goal names"
    return ""


def _balanced(text: str) -> bool:
    """One bracket around everything, and each closed."""
    text = text.strip()
    depth = 0
    for place in _BRACKET.finditer(text):
        depth += 1 if place[0] == "(" else -1
        if depth <= 0:
            return depth == 0 and place.end() == len(text)
    return False


@lru_cache(maxsize=8)
def _domain_is_whole(source: str) -> bool:
    """All games of a version share one domain."""
    return _balanced(_COMMENT.sub("", source))
