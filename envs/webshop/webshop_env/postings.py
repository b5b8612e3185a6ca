"""Building the inverted index of `search`: texts -> postings of a part -> one index over all parts.

Parts are analysed one by one and can lie on disk, so that a million texts need no more memory than their postings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from webshop_env.analysis import analyse

K1, B = 0.9, 0.4
_FREE = 24  # 255 minus the byte value of the largest 32-bit integer: so many lengths fit exactly into Lucene's byte


@dataclass
class Part:
    """Postings of some consecutive texts: terms[term[i]] stands count[i] times in the text `document[i]` of this part.

    term, document: int32, count: int32, sorted by document; lengths: int32, terms of each text with repeats.
    """

    terms: list[str]
    term: NDArray[np.int32]
    document: NDArray[np.int32]
    count: NDArray[np.int32]
    lengths: NDArray[np.int32]


def analyse_part(texts: Sequence[str]) -> Part:
    """Analyse and count."""
    codes: dict[str, int] = {}
    term: list[int] = []
    count: list[int] = []
    distinct = np.zeros(len(texts), dtype=np.int64)
    lengths = np.zeros(len(texts), dtype=np.int32)
    for number, text in enumerate(texts):
        counted = Counter(analyse(text))
        distinct[number], lengths[number] = len(counted), counted.total()
        term += [codes.setdefault(word, len(codes)) for word in counted]
        count += counted.values()
    return Part(
        list(codes),
        np.array(term, dtype=np.int32),
        np.repeat(np.arange(len(texts), dtype=np.int32), distinct),
        np.array(count, dtype=np.int32),
        lengths,
    )


@dataclass
class Merged:
    """terms, sorted; documents and weights of term i are [starts[i]:starts[i + 1]], documents ascending."""

    terms: list[str]
    starts: NDArray[np.int64]
    documents: NDArray[np.int32]
    weights: NDArray[np.float32]


def merge(
    parts: Callable[[], Iterable[Part]], allocate: Callable[[str, int, Any], NDArray[Any]] | None = None
) -> Merged:
    """One index over all parts, which are gone through twice. allocate(name, size, dtype): where the arrays lie."""
    frequency: Counter[str] = Counter()
    lengths: list[NDArray[np.int32]] = []
    for part in parts():
        frequency.update(dict(zip(part.terms, np.bincount(part.term, minlength=len(part.terms)).tolist(), strict=True)))
        lengths.append(part.lengths)
    terms = sorted(frequency)
    code = {word: number for number, word in enumerate(terms)}
    size = np.array([frequency[word] for word in terms], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(size)]).astype(np.int64)
    whole = np.concatenate(lengths) if lengths else np.zeros(0, dtype=np.int32)
    inverse = inverse_norms(whole)
    held = int(np.count_nonzero(whole))  # Lucene counts only documents that have at least one term
    idf = np.array([np.log(1 + (held - n + 0.5) / (n + 0.5)) for n in size.tolist()], dtype=np.float32)
    make = allocate or (lambda name, length, dtype: np.empty(length, dtype=dtype))
    documents = make("documents", int(starts[-1]), np.int32)
    weights = make("weights", int(starts[-1]), np.float32)
    free, first = starts[:-1].copy(), 0
    for part in parts():
        word = np.array([code[w] for w in part.terms], dtype=np.int64)[part.term]
        order = np.argsort(word, kind="stable")  # by term, and inside a term by document
        word, document = word[order], part.document[order].astype(np.int64) + first
        new = (
            np.flatnonzero(np.concatenate(([True], word[1:] != word[:-1])))
            if len(word)
            else np.zeros(0, dtype=np.int64)
        )
        run = np.diff(np.append(new, len(word)))
        place = np.repeat(free[word[new]] - new, run) + np.arange(len(word))
        documents[place] = document
        # the same as idf * tf / (tf + norm), in the order of operations that Lucene rounds in
        own = idf[word]
        weights[place] = own - own / (np.float32(1) + part.count[order].astype(np.float32) * inverse[document])
        free[word[new]] += run
        first += len(part.lengths)
    return Merged(terms, starts, documents, weights)


def inverse_norms(lengths: NDArray[Any]) -> NDArray[np.float32]:
    """1 / (k1 (1 - b + b length / mean)) of every document, its length rounded as Lucene stores it."""
    held = max(1, int(np.count_nonzero(lengths)))
    mean = np.float32(max(1, int(lengths.sum(dtype=np.int64))) / held)
    known, back = np.unique(lengths, return_inverse=True)
    stored = np.array([decode_length(encode_length(int(n))) for n in known], dtype=np.float32)
    k1, b = np.float32(K1), np.float32(B)
    inverse: NDArray[np.float32] = np.float32(1) / (k1 * ((np.float32(1) - b) + b * stored[back] / mean))
    return inverse


def encode_length(length: int) -> int:
    """A document length as Lucene's one byte: exact below 40, then a float of four significant bits."""
    if length < _FREE:
        return length
    value = length - _FREE
    bits = value.bit_length()
    if bits < 4:
        return _FREE + value
    shift = bits - 4
    return _FREE + (((value >> shift) & 0x07) | ((shift + 1) << 3))


def decode_length(code: int) -> int:
    """The length that a byte of :func:`encode_length` stands for (rounded down)."""
    if code < _FREE:
        return code
    code -= _FREE
    mantissa, shift = code & 0x07, (code >> 3) - 1
    return _FREE + (mantissa if shift == -1 else (mantissa | 0x08) << shift)
