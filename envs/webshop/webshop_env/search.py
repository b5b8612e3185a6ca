"""BM25 search with the numbers of Lucene, which the original WebShop uses (k1 0.9, b 0.4, English analysis)."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webshop_env.analysis import analyse
from webshop_env.postings import K1, B, analyse_part, decode_length, encode_length, merge

__all__ = ["K1", "B", "MAX_QUERY_TERMS", "Index", "decode_length", "encode_length"]

MAX_QUERY_TERMS = 1024  # Lucene's bound on the clauses of one query; further terms are left out

FEW = 20_000  # documents: up to here adding up everything is the quickest

Span = tuple[int, int, float]  # of a term: where its postings begin and end, and the largest of its weights


class Index:
    """An immutable inverted index; its arrays may lie in mapped files.

    score(d, q) = sum over query terms t, with repeats, of idf(t) * tf / (tf + norm(d)), where
    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5)), norm(d) = k1 * (1 - b + b * length(d) / mean length)
    and length(d) is the number of terms rounded as Lucene stores it. Ties are broken by id.
    """

    def __init__(
        self,
        ids: Sequence[str],
        spans: Mapping[str, Span],
        documents: NDArray[np.int32],
        weights: NDArray[np.float32],
        rank: NDArray[np.int32],
    ) -> None:
        """spans: the postings of each term; documents: ascending in each span; rank: place of each id in their order."""
        self.ids = ids
        self._spans = spans
        self._documents = documents
        self._weights = weights
        self._rank = rank
        self._own = threading.local()

    def __len__(self) -> int:
        return len(self.ids)

    @classmethod
    def build(cls, ids: Sequence[str], texts: Sequence[str]) -> Index:
        """Index `texts[i]` under `ids[i]`. Raises ValueError if the lengths differ or an id is given twice."""
        if len(ids) != len(texts):
            raise ValueError(
                f"ids and texts differ in length ({len(ids)} and {len(texts)}): give one text for each id."
            )
        if len(set(ids)) != len(ids):
            twice = Counter(ids).most_common(1)[0][0]
            raise ValueError(f"id {twice!r} is given twice: give each document an id of its own.")
        part = analyse_part(texts)
        merged = merge(lambda: [part])
        largest = largest_weights(merged.starts, merged.weights)
        bounds = zip(merged.starts[:-1].tolist(), merged.starts[1:].tolist(), largest.tolist(), strict=True)
        spans = dict(zip(merged.terms, bounds, strict=True))
        return cls(list(ids), spans, merged.documents, merged.weights, ranks(ids))

    def search(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """The best `k` documents as (id, score), best first. Documents without a query term are never returned."""
        if k < 1:
            raise ValueError(f"k is {k}: ask for at least one document.")
        terms: list[tuple[Span, int]] = []
        for term, count in list(Counter(analyse(query)).items())[:MAX_QUERY_TERMS]:
            span = self._spans.get(term)
            if span is not None:
                terms.append((span, count))
        if not terms:
            return []
        if len(self.ids) <= FEW:
            found, single = self._all(terms, k)
        else:
            found = np.unique(self._candidates(terms, k))
            scores = np.zeros(len(found), dtype=np.float64)
            for (start, end, _), count in terms:  # in the order of the query, so that sums round alike for every k
                there, at = _places(self._documents[start:end], found)
                scores[there] += np.float32(count) * self._weights[start:end][at]
            single = scores.astype(np.float32)
        best = np.lexsort((self._rank[found], -single))[: min(k, int(np.count_nonzero(single > 0)))]
        return [(self.ids[int(found[i])], float(single[i])) for i in best.tolist()]

    def _all(self, terms: list[tuple[Span, int]], k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(documents, scores) of the best k and of ties with the last of them, by adding up everything."""
        scores = np.zeros(len(self.ids), dtype=np.float64)
        for (start, end, _), count in terms:
            scores[self._documents[start:end]] += np.float32(count) * self._weights[start:end]
        single = scores.astype(np.float32)
        found = np.flatnonzero(single)
        if len(found) > k:
            found = found[single[found] >= np.partition(single[found], len(found) - k)[len(found) - k]]
        return found, single[found]

    def _candidates(self, terms: list[tuple[Span, int]], k: int) -> NDArray[np.int64]:
        """Documents among which the best k are, ties with the last of them included (the MaxScore algorithm).

        Terms come in the order of the most that they can add. Once what is left of them cannot lift a document that has
        not been met above the k-th best so far, they are only looked up for those that have been met.
        """
        ordered = sorted(terms, key=lambda item: -item[0][2] * item[1])
        most = [span[2] * count for span, count in ordered]
        left = [*list(accumulate(reversed(most)))[::-1], 0.0]  # the most that terms i, i + 1, ... add together
        bound = self._reached(ordered, k)
        scores = self._scores()
        met = np.zeros(0, dtype=np.int64)
        done = 0
        try:
            for (start, end, _), count in ordered:
                if left[done] < bound:
                    break
                documents = self._documents[start:end]
                fresh = documents[scores[documents] == 0]
                scores[documents] += np.float32(count) * self._weights[start:end]
                met = np.concatenate([met, fresh])
                done += 1
            partial = scores[met]
        finally:
            scores[met] = 0.0
        for position in range(done, len(ordered)):
            keep = partial + left[position] >= bound
            met, partial = met[keep], partial[keep]
            (start, end, _), count = ordered[position]
            there, at = _places(self._documents[start:end], met)
            partial[there] += np.float32(count) * self._weights[start:end][at]
        return met[partial >= bound]

    def _reached(self, ordered: list[tuple[Span, int]], k: int) -> float:
        """A score that at least k documents reach, or 0: of documents that have the strongest term and, while there are
        enough of them, the next ones too."""
        (start, end, _), count = ordered[0]
        if end - start < k:
            return 0.0
        documents = self._documents[start:end]
        partial = np.float32(count) * self._weights[start:end].astype(np.float64)
        for (start, end, _), count in ordered[1:]:
            there, at = _places(self._documents[start:end], documents)
            partial[there] += np.float32(count) * self._weights[start:end][at]
            if len(there) >= k:
                documents, partial = documents[there], partial[there]
        return _kth(partial, k) * (1 - 1e-6)  # sums are rounded once more in the end

    def _scores(self) -> NDArray[np.float64]:
        """Zeros, one per document, kept by each thread: clearing what was touched is quicker than new memory."""
        kept: NDArray[np.float64] | None = getattr(self._own, "scores", None)
        if kept is None:
            kept = self._own.scores = np.zeros(len(self.ids), dtype=np.float64)
        return kept


def _kth(values: NDArray[np.float64], k: int) -> float:
    return float(np.partition(values, len(values) - k)[len(values) - k])


def _places(documents: NDArray[np.int32], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(i, j) with wanted[i] == documents[j], where documents ascend."""
    at = np.searchsorted(documents, wanted.astype(np.int32, copy=False))
    at_most = np.minimum(at, len(documents) - 1)
    there = np.flatnonzero(documents[at_most] == wanted)
    return there, at[there]


def largest_weights(starts: NDArray[np.int64], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """[terms] the largest weight of each term's postings; every term has at least one."""
    return np.maximum.reduceat(weights, starts[:-1]) if len(starts) > 1 else np.zeros(0, dtype=np.float32)


def ranks(ids: Sequence[str]) -> NDArray[np.int32]:
    """[documents] the place of each id in their order."""
    rank = np.empty(len(ids), dtype=np.int32)
    rank[sorted(range(len(ids)), key=ids.__getitem__)] = np.arange(len(ids), dtype=np.int32)
    return rank
