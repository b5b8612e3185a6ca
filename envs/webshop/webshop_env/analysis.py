"""Text analysis as Lucene's English analyser does it: tokens, possessives, lower case, stop words, Porter stems."""

from __future__ import annotations

import re
from functools import lru_cache

import Stemmer

STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "but",
        "by",
        "for",
        "if",
        "in",
        "into",
        "is",
        "it",
        "no",
        "not",
        "of",
        "on",
        "or",
        "such",
        "that",
        "the",
        "their",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "was",
        "will",
        "with",
    ]
)
MAX_TOKEN = 255  # the standard tokeniser cuts longer tokens into pieces of this length

# Unicode word boundaries (UAX 29), as far as product texts need them: runs of letters, digits and underscores;
# some marks join two letters, others two digits; an ideograph or a hiragana sign is a token of its own.
_IDEOGRAPH = "\u3040-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_RUN = rf"(?:(?![{_IDEOGRAPH}])[\w\u0300-\u036f])+"
_JOIN_LETTERS = r"(?<=[^\W\d_])[:.'\u00b7\u2018\u2019\u2024\u2027\uff07\uff0e\uff1a](?=[^\W\d_])"
_JOIN_DIGITS = r"(?<=\d)[.,;'\u2018\u2019\u2024\uff07\uff0c\uff0e\uff1b](?=\d)"
_TOKEN = re.compile(rf"[{_IDEOGRAPH}]|{_RUN}(?:(?:{_JOIN_LETTERS}|{_JOIN_DIGITS}){_RUN})*")
_POSSESSIVE = re.compile("['\u2019\uff07][sS]$")

_porter = Stemmer.Stemmer("porter", 0)


def analyse(text: str) -> list[str]:
    """The index terms of a text, in order, with repeats."""
    terms = []
    for token in _TOKEN.findall(text):
        for start in range(0, len(token), MAX_TOKEN):
            term = _term(token[start : start + MAX_TOKEN])
            if term:
                terms.append(term)
    return terms


@lru_cache(maxsize=16384)
def _term(token: str) -> str:
    """The term of one token, or "" for a stop word and for a token without letters or digits."""
    word = _POSSESSIVE.sub("", token).lower()
    if word in STOP_WORDS or not word.strip("_"):
        return ""
    return stem(word)


def stem(word: str) -> str:
    """Porter stem of a lower-case word, with the two departures from the paper that Lucene has (bli, logi)."""
    if len(word) <= 2:
        return word
    stemmed: str = _porter.stemWord(word)
    if stemmed.endswith("logi") and _measure(stemmed[:-4]) > 0:
        return stemmed[:-1]
    if stemmed.endswith("bli") and _measure(stemmed[:-3]) > 0:
        return str(_porter.stemWord(stemmed[:-1] + "e"))
    return stemmed


def _measure(stem_part: str) -> int:
    """Porter's m: how often a vowel run is followed by a consonant run."""
    count, after_vowel = 0, False
    for position, letter in enumerate(stem_part):
        vowel = letter in "aeiou" or (letter == "y" and position > 0 and stem_part[position - 1] not in "aeiou")
        if after_vowel and not vowel:
            count += 1
        after_vowel = vowel
    return count
