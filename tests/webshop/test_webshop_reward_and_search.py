"""The reward and the search against the given vectors of the original program and of Lucene."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from webshop_env.reward import purchase_reward
from webshop_env.search import Index, decode_length, encode_length

CASES = Path(__file__).resolve().parents[1] / "cases"
REWARD = json.loads((CASES / "webshop_reward.json").read_text())["cases"]
LUCENE = json.loads((CASES / "lucene_bm25_small.json").read_text())


@pytest.mark.parametrize("case", REWARD, ids=lambda case: case["name"])
def test_reward_and_its_parts(case: dict[str, Any]) -> None:
    reward, parts = purchase_reward(
        case["product"], case["goal"], case["price"], case["options"],
        goal_nouns=case["goal_nouns"], purchased_nouns=case["purchased_nouns"],
    )  # fmt: skip
    assert reward == pytest.approx(case["reward"], abs=1e-12)
    for name, value in case["info"].items():
        assert parts[name] == pytest.approx(value, abs=1e-12), name


def test_a_limit_of_nothing_is_refused() -> None:
    case = REWARD[0]
    with pytest.raises(TypeError, match="price_upper"):
        purchase_reward(case["product"], {**case["goal"], "price_upper": 0}, 1.0, {})


@pytest.fixture(scope="module")
def index() -> Index:
    ids, texts = zip(*LUCENE["docs"], strict=True)
    return Index.build(list(ids), list(texts))


@pytest.mark.parametrize("query", LUCENE["queries"], ids=lambda query: query["query"][:40])
def test_search_is_lucenes(index: Index, query: dict[str, Any]) -> None:
    found = index.search(query["query"], k=10)
    assert [asin for asin, _ in found] == [asin for asin, _ in query["top"]]
    assert [score for _, score in found] == pytest.approx([score for _, score in query["top"]], abs=2e-4)


def test_lengths_are_stored_in_a_byte_and_exact_while_short() -> None:
    assert [decode_length(encode_length(n)) for n in range(40)] == list(range(40))
    assert all(decode_length(encode_length(n)) <= n for n in range(5000))


def test_search_of_nothing_and_of_odd_things(index: Index) -> None:
    assert index.search("", k=5) == [] and index.search("the of and", k=5) == []
    assert index.search("\x00\x07\ud7ff", k=5) == []
    assert len(index.search("laptop " * 2000, k=3)) <= 3
    with pytest.raises(ValueError, match="k is 0"):
        index.search("laptop", k=0)


def test_ids_must_be_unique() -> None:
    with pytest.raises(ValueError, match="'a' is given twice"):
        Index.build(["a", "a"], ["x", "y"])
