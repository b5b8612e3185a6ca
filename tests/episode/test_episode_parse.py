"""The parsing rules, case by case."""

from __future__ import annotations

import time

import pytest

from agentrl.episode.parse import INVALID, ActionParser

GOOD = "<think>Look for it.</think><action>search[red scarf]</action>"


@pytest.mark.parametrize(
    ("text", "action", "reason"),
    [
        (GOOD, "search[red scarf]", ""),
        ("<think>a</think>\n<action>\n  Click[B0123]  \n</action>", "click[b0123]", ""),
        ("<THINK>a</THINK><Action>Buy Now</ACTION>", "buy now", ""),
        # the first pair counts
        ("<think>a</think><action>one</action><action>two</action>", "one", ""),
        ("<think>a</think><action>one<action>two</action>", "one<action>two", ""),
        # order of the two blocks, and text around them, do not matter
        ("so <action>go</action> because <think>a</think> yes", "go", ""),
        ("<think></think><action>go</action>", "go", ""),
        ("<think>a<action>go</action>b</think>", "go", ""),
        ("", INVALID, "no <action>"),
        ("search[red scarf]", INVALID, "no <action>"),
        ("<think>a</think>action>go</action>", INVALID, "no <action>"),
        ("<think>a</think><action>go", INVALID, "no </action>"),
        ("<think>a</think></action>go<action>", INVALID, "</action> before <action>"),
        ("<think>a</think></action><action>go</action>", INVALID, "</action> before <action>"),
        ("<action>go</action>", INVALID, "no <think>"),
        ("<think>a<action>go</action>", INVALID, "no </think>"),
        ("a</think><action>go</action>", INVALID, "no <think>"),
        ("</think>a<think><action>go</action>", INVALID, "</think> before <think>"),
        ("<think>a</think><action>   </action>", INVALID, "nothing between the action tags"),
        ("<think>a</think>< action>go</action>", INVALID, "no <action>"),
        ("<think>去</think><action>go</action>", INVALID, "a CJK character"),
        ("<think>a</think><action>go</action>カ", INVALID, "a CJK character"),
        ("<think>가</think><action>go</action>", INVALID, "a CJK character"),
        # other scripts are no CJK
        ("<think>naïve café Привет</think><action>ouvrir</action>", "ouvrir", ""),
        # a character whose lower case is longer must not shift the tags
        ("<think>İİİ</think><action>go</action>", "go", ""),
    ],
)
def test_rules(text: str, action: str, reason: str) -> None:
    parsed = ActionParser()(text)
    assert (parsed.action, parsed.reason) == (action, reason)
    assert parsed.valid == (reason == "")


def test_thought_keeps_its_case() -> None:
    assert ActionParser()("<think> I need\n RED </think><action>go</action>").thought == "I need\n RED"
    assert ActionParser()("<action>go</action>").thought == ""


def test_switches() -> None:
    assert ActionParser(require_think=False)("<action>go</action>").action == "go"
    assert not ActionParser(require_think=False)("</action><action>").valid
    assert ActionParser(allow_cjk=True)("<think>去</think><action>去 a</action>").action == "去 a"


def test_all_invalid_texts_are_one_action() -> None:
    texts = ["", "x", "<action></action>", GOOD.replace("think", "thought"), "<think>a</think><action>"]
    assert {ActionParser()(text).action for text in texts} == {"<invalid>"}


@pytest.mark.parametrize("text", ["<think>" * 28_000, "<think>" * 28_000 + GOOD, "<action>" * 25_000])
def test_a_long_response_is_read_once(text: str) -> None:
    began = time.process_time()
    ActionParser()(text)
    assert time.process_time() - began < 1.0
