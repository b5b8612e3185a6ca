"""A small, deterministic noun finder for product titles.

The original runs a statistical tagger. Titles are noun phrases, so that what is neither a function word, nor an
adjective or participle, nor a number is taken as a noun. Nouns are stored with each product when a catalogue is built.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_FUNCTION_WORDS = frozenset(
    "a an the and or but nor of for with without in on at by to from as is are be that this these those it its your "
    "our my his her their all any each every some no not more most very extra per via plus up down off out over under "
    "into than then so if i you we they".split()
)
_ADJECTIVES = frozenset(
    "adjustable airtight antique artificial automatic big black blue bold brown breathable bright caffeinated casual "
    "certified classic clean clear compact compatible cordless cotton-free crunchy curly dark decaf deep dense digital "
    "dimmable double dry durable easy elastic elegant electric ergonomic everyday fast fat firm flat flexible floral "
    "foldable formal free fresh full gentle glossy gluten golden good green grey gray handmade heavy high hot hollow "
    "hypoallergenic individual insulated kosher large lasting leakproof light lightweight local long loud low luxury "
    "machine magnetic matte medium mini modern moist natural new noisy non nontoxic nutritious odorless open orange "
    "organic orthopedic outdoor oversized padded personal pink plain plush polished portable premium pre prepared "
    "professional purple quick quiet rapid raw real reclaimed red refillable relaxed reusable rich round rustic safe "
    "scented seamless sensitive short shiny silent simple single skinny slim slow small smart smooth soft solid "
    "spacious square stackable sturdy sweet tall tempered thick thin tight tiny tough traditional triple unscented "
    "vegan versatile vintage warm washable waterproof white wide wireless wooden wrinkle yellow young".split()
)
_ENDINGS = ("able", "ible", "proof", "less", "ish", "ized", "ated")


def title_nouns(title: str) -> list[str]:
    """The nouns of a title, lower case, in order, with repeats."""
    return [word for word in _WORD.findall(title.lower()) if _is_noun(word)]


def _is_noun(word: str) -> bool:
    if word in _FUNCTION_WORDS or word in _ADJECTIVES or any(letter.isdigit() for letter in word):
        return False
    return not (len(word) > 5 and word.endswith(_ENDINGS))
