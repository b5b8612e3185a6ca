"""The pruned search finds what adding up everything finds: the same documents, scores and order, ties included."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from webshop_env import search
from webshop_env.analysis import analyse
from webshop_env.search import Index

WORDS = [f"word{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(60)]


def everything(index: Index, query: str, k: int) -> list[tuple[str, float]]:
    scores = np.zeros(len(index.ids))
    for term, count in Counter(analyse(query)).items():
        if term in index._spans:
            start, end, _ = index._spans[term]
            scores[index._documents[start:end]] += np.float32(count) * index._weights[start:end]
    single = scores.astype(np.float32)
    ranked = sorted((-float(single[n]), index.ids[n]) for n in np.flatnonzero(single > 0))
    return [(name, -score) for score, name in ranked[:k]]


@pytest.mark.parametrize("few", [0, 10**9], ids=["pruned", "added up"])
@pytest.mark.parametrize("seed", range(12))
def test_as_adding_up_everything(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FEW", few)
    rng = random.Random(seed)
    # frequent and rare words, texts that repeat word for word (ties), documents of no word at all
    weights = [1 / (rank + 1) ** rng.choice([0.5, 1.0, 1.5]) for rank in range(len(WORDS))]
    texts = [
        " ".join(rng.choices(WORDS, weights, k=rng.choice([0, 1, 3, 8, 30]))) for _ in range(rng.choice([3, 40, 700]))
    ]
    texts += rng.choices(texts, k=len(texts) // 2)
    ids = [f"B{number:05d}" for number in range(len(texts))]
    rng.shuffle(ids)
    index = Index.build(ids, texts)
    for _ in range(150):
        query = " ".join(rng.choices(WORDS, weights if rng.random() < 0.5 else None, k=rng.choice([1, 2, 5, 12])))
        k = rng.choice([1, 2, 10, 50, 5000])
        assert index.search(query, k) == everything(index, query, k), (query, k)
    assert not index._scores().any()  # clean for the next query


def test_two_threads_do_not_disturb_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "FEW", 0)
    from concurrent.futures import ThreadPoolExecutor

    rng = random.Random(1)
    index = Index.build([str(n) for n in range(500)], [" ".join(rng.choices(WORDS, k=10)) for _ in range(500)])
    queries = [" ".join(rng.choices(WORDS, k=4)) for _ in range(300)]
    alone = [index.search(query, 20) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda query: index.search(query, 20), queries)) == alone
