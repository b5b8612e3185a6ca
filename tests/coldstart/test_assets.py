"""The policies that agentrl carries: small, complete, and able to read what their recipes show them."""

from __future__ import annotations

import re

import pytest

from agentrl.config import compose_config
from agentrl.config.model import ASSETS, TINY, check_model

pytestmark = pytest.mark.parametrize("name", TINY)


def test_it_is_small_and_has_a_card(name: str) -> None:
    folder = ASSETS / TINY[name]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 10 << 20
    card = (folder / "README.md").read_text(encoding="utf-8")
    assert "What it cannot do" in card and re.search(r"^\| 1 \| \d+ %", card, re.M)


def test_its_recipes_name_it_and_fit_its_context(name: str) -> None:
    environment = name.partition("_")[2] or "webshop"
    config = compose_config([f"+recipe=ptgpo_{environment}", "scale=cpu"])
    assert config.model.path == name
    check_model(config)


def test_its_words_are_tokens(name: str) -> None:
    """An answer is a handful of tokens: what is spelled in bytes cannot be copied."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(ASSETS / TINY[name])
    answers = {
        "tiny": "<think>search</think><action>search[red shoes]</action>",
        "tiny_alfworld": "<think>take</think><action>take mug 2 from countertop 1</action>",
        "tiny_scienceworld": "<think>take</think><action>pick up blue jay egg</action>",
        "tiny_sokoban": "<think>left</think><action>down</action>",
    }
    ids = tokenizer.encode(answers[name])
    assert tokenizer.decode(ids) == answers[name] and len(ids) <= 15
