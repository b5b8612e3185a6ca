"""What is read from the answers of prompted models, and what they are shown."""

from __future__ import annotations

import json
import time

import pytest

from agentrl.baselines.answers import STYLES, direct_action, react_action
from agentrl.baselines.chat import ChatRenderer, MessageBytes, answer_ids, messages_of
from agentrl.episode.parse import INVALID


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("up", "up"),
        ("  \n`Up`.\n", "up"),
        ("Action: search[Red Scarf]", "search[red scarf]"),
        ("**Action:** go to shelf 1\nBecause I must.", "go to shelf 1"),
        ("```text\nclick[buy now]\n```", "click[buy now]"),
        ("Action:\nleft", "left"),
        ("<think>left or right?</think>\nright", "right"),
        ("left or right?</think>right", "right"),
        ("<action>Down</action>", "down"),
        ('"search[it\'s 5.5 inch]"', "search[it's 5.5 inch]"),
    ],
)
def test_direct(text: str, action: str) -> None:
    parsed = direct_action(text)
    assert (parsed.valid, parsed.action) == (True, action)


@pytest.mark.parametrize("text", ["", " \n ", "<think>never ends", "```\n```", "Action:"])
def test_direct_without_an_action(text: str) -> None:
    parsed = direct_action(text)
    assert not parsed.valid and parsed.action == INVALID and parsed.reason


@pytest.mark.parametrize(
    ("text", "action", "thought"),
    [
        ("Thought: the box is left.\nAction: left", "left", "the box is left."),
        ("I go left.\n\naction : Left\nObservation: you won\nAction: up", "left", "I go left."),
        ("**Thought:** two\nlines\n**Action:** `click[a-1]`", "click[a-1]", "two\nlines"),
        ("Thought 3: x\nAction 3: up.", "up", "x"),
        ("<think>deep</think>Action:\nup", "up", "deep"),
        ("Thought: my next action: push\nAction: right", "right", "my next action: push"),
    ],
)
def test_react(text: str, action: str, thought: str) -> None:
    parsed = react_action(text)
    assert (parsed.valid, parsed.action, parsed.thought) == (True, action, thought)


@pytest.mark.parametrize("text", ["", "up", "Thought: only this", "Thought: x\nAction:", "<think>Action: up"])
def test_react_without_an_action(text: str) -> None:
    assert not react_action(text).valid


def conversation(style: str = "direct", limit: int | None = None, history: int | None = None):
    renderer = ChatRenderer(MessageBytes(), lambda task: f"GOAL {task}", STYLES[style], limit=limit, history=history)
    return renderer.start("win")


def shown(talk, observation: str, actions: list[str] | None = None) -> list[str]:
    prompt = talk.prompt(observation, actions)
    messages = messages_of(prompt.ids)
    assert [m["role"] for m in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"]
    return [m["content"] for m in messages]


def test_a_conversation_grows_and_forgets_old_lists_of_actions() -> None:
    talk = conversation()
    (first,) = shown(talk, "room 1", ["up", "down"])
    assert first.startswith("GOAL win") and "room 1" in first and "up\ndown" in first
    talk.add("room 1", "up", answer_ids(" UP. "))
    first, answer, now = shown(talk, "room 2", ["down"])
    assert "room 1" in first and "up\ndown" not in first and answer == "up"
    assert "room 2" in now and "down" in now


def test_what_a_model_made_up_is_not_shown_to_it() -> None:
    talk = conversation("react")
    shown(talk, "room 1")
    talk.add("room 1", "up", answer_ids("Thought: t\nAction: up\nObservation: you won"))
    assert shown(talk, "room 2")[1] == "Thought: t\nAction: up"


def test_an_unreadable_answer_is_told() -> None:
    talk = conversation("react")
    shown(talk, "room 1")
    talk.add("room 1", INVALID, answer_ids(""))
    first, answer, now = shown(talk, "room 1")
    assert answer and "no action in your last answer" in now and "no action in your last answer" not in first


def test_history_and_limit_drop_the_oldest_turns() -> None:
    for options in ({"history": 1}, {"limit": 300}):
        talk = conversation(**options)  # type: ignore[arg-type]
        for turn in range(1, 6):
            texts = shown(talk, f"room {turn}")
            assert "GOAL win" in texts[0] and f"room {turn}" in texts[-1]
            talk.add(f"room {turn}", "up", answer_ids("up"))
        assert len(texts) == 3 and "room 4" in texts[0] and "first 3 actions are left out" in texts[0]
    assert conversation(limit=20).prompt("room", None) is None


def test_shorter_halves_the_turns_until_none_is_left() -> None:
    talk = conversation()
    for turn in range(1, 6):
        shown(talk, f"room {turn}")
        talk.add(f"room {turn}", "up", answer_ids("up"))
    shown(talk, "room 6")
    lengths = []
    while (ids := talk.shorter()) is not None:
        messages = json.loads(bytes(ids))
        assert "room 6" in messages[-1]["content"]
        lengths.append(len(messages))
    assert lengths == [5, 3, 1] and talk.prompt("room 6", None) is None


LONG = 200_000  # characters


@pytest.mark.parametrize(
    "text",
    [
        "action" + " " * LONG + "x",
        " " * LONG + "Action: up",
        " " * LONG + "\nAction: up",
        "* " * (LONG // 2) + "\nAction: up",
        "thought" + " " * LONG + "\nAction: up",
        "action" + "1" * LONG,
        "action" + "*" * LONG,
        "<think>" * (LONG // 7),
        "<action>" * (LONG // 8),
        "<think>a</think>" + "<think>" * (LONG // 7),
        "```" + " " * LONG + "x",
    ],
    ids=lambda text: repr(text[:18]),
)
def test_a_long_answer_is_read_once(text: str) -> None:
    began = time.process_time()
    direct_action(text)
    react_action(text)
    assert time.process_time() - began < 1.0


@pytest.mark.parametrize(
    ("text", "action", "thought"),
    [
        ("my thought : a\naction 2 ** :** go", "go", "my a"),
        ("x - thought\naction * : up", "up", "x - thought"),
        ("<THINK>a</think>b<think>c</THINK>\n> action: up", "up", "b"),
        ("<think>a<think>b</think>c</think>\nAction: up", "up", "a<think>b"),
    ],
)
def test_labels_and_tags_in_odd_places(text: str, action: str, thought: str) -> None:
    parsed = react_action(text)
    assert (parsed.valid, parsed.action, parsed.thought) == (True, action, thought)
