"""The scripted shopper: good without slips, imperfect with them, and its answers are what the parser reads."""

import random

import pytest

from agentrl.coldstart.demonstrations import Slips, demonstrate
from agentrl.coldstart.tiny_policy import CLUMSY, OPTIONS
from agentrl.coldstart.tokenizer import build_tokenizer
from agentrl.episode.parse import INVALID, ActionParser
from agentrl.episode.prompt import WindowRenderer

plugin = pytest.importorskip("webshop_env.plugin")


@pytest.fixture(scope="module")
def shop():
    renderer = WindowRenderer(build_tokenizer(["x"], size=400), plugin.prompts, "compact", max_prompt_tokens=4000)
    return plugin.make(**OPTIONS), renderer, plugin.tasks("train", **OPTIONS, difficulty="easy").ids[:60]


def success(shop, slips):
    env, renderer, tasks = shop
    rng = random.Random(0)
    return sum(demonstrate(env, renderer, task, rng, slips, slips)[1] for task in tasks) / len(tasks)


def test_without_slips_it_nearly_always_succeeds_and_with_them_sometimes(shop):
    assert success(shop, Slips()) > 0.9
    assert 0.15 < success(shop, CLUMSY) < 0.75


def test_answers_parse_and_malformed_ones_do_not(shop):
    env, renderer, tasks = shop
    parser = ActionParser()
    for slips, valid in ((Slips(), True), (Slips(malformed=1.0), False)):
        records, _ = demonstrate(env, renderer, tasks[0], random.Random(1), slips, slips)
        assert records
        assert all((parser(record.response).action != INVALID) == valid for record in records)


def test_what_is_written_can_be_better_than_what_is_played(shop):
    env, renderer, tasks = shop
    wander = Slips(wrong_item=0.9)
    records, _ = demonstrate(env, renderer, tasks[1], random.Random(2), Slips(), wander)
    assert any("page: results" in record.messages[0]["content"] for record in records)
    assert all(record.response.startswith("<think>") for record in records)
