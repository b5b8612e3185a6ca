"""The words that the prompting baselines say to a model.

An environment may bring its own rules as `prompts["rules"]`; those of our own small ones stand here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

RULES = {
    "sokoban": (
        "This is Sokoban. A room that is drawn has these signs: # wall, _ floor, O target, X box, P you, √ a box on a target, "
        "S you on a target. In one that is described, r and c stand for row and column, counted from 0 at the top left. "
        "Walking against a box pushes it one cell on if the cell behind it is free; a box can never be pulled. You win "
        "when every box stands on a target."
    ),
    "webshop": (
        "This is an online shop. From the search page you look for products; a result opens its product page, where "
        "options such as size or colour are chosen before buying. Buying ends the visit: it counts in full only if the "
        "product, the chosen options and the price are what the customer asked for."
    ),
}

OPENING = """You control an agent in a text environment, one action at a time.
{rules}
Your goal: {task}

After each of your actions I tell you what you see next. You have at most {max_turns} actions.
{format}"""

DIRECT = (
    "Answer with the action alone, on one line: no explanation and no quotation marks. Where possible actions are listed, "
    "write one of them as it is listed; a part in <angle brackets> stands for words of your own, without the brackets."
)

REACT = (
    "Answer in exactly two lines and then stop:\n"
    "Thought: what the goal asks for, what you see, and what should be done next\n"
    "Action: the one action\n"
    "Where possible actions are listed, write one of them as it is listed; a part in <angle brackets> stands for words of "
    "your own, without the brackets."
)

NOTES = "You have failed at this very task before. These are your own notes from then; make use of them:\n{notes}"

SEEN = "What you see now:\n{observation}"
POSSIBLE = "Possible actions:\n{actions}"
UNREADABLE = "There was no action in your last answer, so nothing has happened. Keep to the answer format."
LEFT_OUT = "(Your first {turns} actions are left out here.)"
NOTHING = "(no answer)"

REFLECT = """An agent in a text environment has just failed at a task. Here is what happened.
{rules}
The goal: {task}
{notes}
{log}

The end: {ended}. The goal was not reached (score {score:.2f} of 1).

The agent will try the same task again from the same start. Write it a note of at most four sentences: which decision went \
wrong, and what to do instead. Be concrete, and write nothing but the note."""

ENDED = {
    "terminated": "the environment ended the episode",
    "truncated": "the environment ended the episode",
    "max_turns": "all actions were used up",
    "context": "the conversation had grown too long to go on",
}


def rules_of(environment: str, prompts: Mapping[str, str]) -> str:
    """What a model must know about an environment to act in it; "" if nobody has written it down."""
    return prompts.get("rules", RULES.get(environment, ""))


def seen(observation: str, admissible_actions: Sequence[str] | None, unreadable: bool) -> str:
    """One turn's message."""
    parts = [UNREADABLE] if unreadable else []
    parts.append(SEEN.format(observation=observation))
    if admissible_actions is not None:
        parts.append(POSSIBLE.format(actions="\n".join(admissible_actions)))
    return "\n\n".join(parts)


def notes_text(notes: Sequence[str]) -> str:
    """Notes of earlier trials as a list, oldest first; "" without any."""
    return NOTES.format(notes="\n".join(f"- {note}" for note in notes)) if notes else ""
