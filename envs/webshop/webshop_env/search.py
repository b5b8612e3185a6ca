"""BM25 search with the numbers of Lucene, which the original WebShop uses (k1 0.9, b 0.4, English analysis)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from webshop_env.analysis import analyse

K1, B = 0.9, 0.4
MAX_QUERY_TERMS = 1024  # Lucene's bound on the clauses of one query; further terms are left out


def encode_length(length: int) -> int:
    """A document length as Lucene's one byte: exact below 40, then a float of four significant bits."""
    free = 24  # 255 minus the byte value of the largest 32-bit integer: so many lengths fit exactly
    if length < free:
        return length
    value = length - free
    bits = value.bit_length()
    if bits < 4:
        return free + value
    shift = bits - 4
    return free + (((value >> shift) & 0x07) | ((shift + 1) << 3))


def decode_length(code: int) -> int:
    """The length that a byte of :func:`encode_length` stands for (rounded down)."""
    free = 24
    if code < free:
        return code
    code -= free
    mantissa, shift = code & 0x07, (code >> 3) - 1
    return free + (mantissa if shift == -1 else (mantissa | 0x08) << shift)


class Index:
    """An immutable inverted index.

    score(d, q) = sum over query terms t, with repeats, of idf(t) * tf / (tf + norm(d)), where
    idf(t) = ln(1 + (N - df + 0.5) / (df + 0.5)), norm(d) = k1 * (1 - b + b * length(d) / mean length)
    and length(d) is the number of terms rounded as Lucene stores it. Ties are broken by id.
    """

    def __init__(
        self,
        ids: list[str],
        start: dict[str, tuple[int, int]],
        documents: NDArray[np.int32],
        weights: NDArray[np.float32],
        rank: NDArray[np.int64],
    ) -> None:
        self.ids = ids
        self._start = start
        self._documents = documents
        self._weights = weights
        self._rank = rank

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
        postings: dict[str, list[tuple[int, int]]] = {}
        lengths = np.zeros(len(ids), dtype=np.int64)
        for number, text in enumerate(texts):
            terms = analyse(text)
            lengths[number] = len(terms)
            for term, count in Counter(terms).items():
                postings.setdefault(term, []).append((number, count))
        inverse_norm = cls._inverse_norms(lengths)
        # Lucene counts only documents that have at least one term.
        held = int(np.count_nonzero(lengths))
        start: dict[str, tuple[int, int]] = {}
        documents = np.zeros(sum(map(len, postings.values())), dtype=np.int32)
        weights = np.zeros(len(documents), dtype=np.float32)
        at = 0
        for term, entries in postings.items():
            end = at + len(entries)
            found, counts = np.array(entries, dtype=np.int64).T
            idf = np.float32(np.log(1 + (held - len(entries) + 0.5) / (len(entries) + 0.5)))
            documents[at:end] = found
            # the same as idf * tf / (tf + norm), in the order of operations that Lucene rounds in
            weights[at:end] = idf - idf / (np.float32(1) + counts.astype(np.float32) * inverse_norm[found])
            start[term] = (at, end)
            at = end
        order = sorted(range(len(ids)), key=ids.__getitem__)
        rank = np.empty(len(ids), dtype=np.int64)
        rank[order] = np.arange(len(ids))
        return cls(list(ids), start, documents, weights, rank)

    @staticmethod
    def _inverse_norms(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
        held = max(1, int(np.count_nonzero(lengths)))
        mean = np.float32(max(1, int(lengths.sum())) / held)
        stored = np.array([decode_length(encode_length(int(n))) for n in lengths], dtype=np.float32)
        k1, b = np.float32(K1), np.float32(B)
        inverse: NDArray[np.float32] = np.float32(1) / (k1 * ((np.float32(1) - b) + b * stored / mean))
        return inverse

    def search(self, query: str, k: int = 10) -> list[tuple[str, float]]:
        """The best `k` documents as (id, score), best first. Documents without a query term are never returned."""
        if k < 1:
            raise ValueError(f"k is {k}: ask for at least one document.")
        scores = np.zeros(len(self.ids), dtype=np.float64)
        for term, count in list(Counter(analyse(query)).items())[:MAX_QUERY_TERMS]:
            if term in self._start:
                at, end = self._start[term]
                scores[self._documents[at:end]] += np.float32(count) * self._weights[at:end]
        scores = scores.astype(np.float32)
        hits = np.flatnonzero(scores > 0)
        if len(hits) > k:
            bound = np.partition(scores[hits], len(hits) - k)[len(hits) - k]
            hits = hits[scores[hits] >= bound]
        best = hits[np.lexsort((self._rank[hits], -scores[hits]))][:k]
        return [(self.ids[number], float(scores[number])) for number in best]
