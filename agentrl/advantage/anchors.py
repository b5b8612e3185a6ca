"""Which states are one anchor, and which actions are one branch."""

from __future__ import annotations

from difflib import SequenceMatcher

import numpy as np

from .columns import Ints
from .table import StepTable


def anchor_groups(table: StepTable, similarity: float | None) -> tuple[Ints, int]:
    """[n] code of each row's state group, and how many there are. State groups never cross task groups.

    ``similarity`` None: equal states. Else two states of a task are one anchor when the ratio of their matching
    subsequence (difflib, 2 matches / total length) is at least ``similarity``: each state joins the first cluster
    whose first member it resembles. Deviation: the public code walks rows as they come, so that clusters depend on
    their order; here the states of a task are walked by (earliest turn, text). Its matcher also calls frequent
    letters of texts over 200 characters junk; ours does not. Time grows with the square of a task's distinct states,
    for texts of 1,000 characters about half a millisecond for an unlike pair and 30 for one near the threshold.
    """
    if similarity is None:
        return table.state_group, table.state_groups
    group_of, state_of = (part.tolist() for part in table.state_group_parts)
    earliest = np.full(table.state_groups, np.iinfo(np.int64).max)
    np.minimum.at(earliest, table.state_group, table.turn)
    texts = [str(table.labels["state"][state]) for state in state_of]
    members: dict[int, list[int]] = {}
    for code, group in enumerate(group_of):
        members.setdefault(group, []).append(code)
    cluster = np.empty(table.state_groups, dtype=np.int64)
    found = 0
    for codes in members.values():
        firsts: list[tuple[str, int]] = []
        for member in sorted(codes, key=lambda c: (earliest[c], texts[c])):
            matcher = SequenceMatcher(None, "", texts[member], autojunk=False)
            places = _places(texts[member])
            for text, code in firsts:
                matcher.set_seq1(text)
                enough = similarity * (len(text) + len(texts[member])) / 2
                # Cheap upper bounds first; the matching blocks are a common subsequence, so its length is one too.
                if (
                    matcher.real_quick_ratio() >= similarity
                    and matcher.quick_ratio() >= similarity
                    and _common_subsequence(places, text) >= enough - 1e-6
                    and matcher.ratio() >= similarity
                ):
                    cluster[member] = code
                    break
            else:
                firsts.append((texts[member], found))
                cluster[member] = found
                found += 1
    return cluster[table.state_group], found


def _places(text: str) -> tuple[dict[str, int], int]:
    """Bit i of places[c] is set where text[i] is c; and the number of bits."""
    places: dict[str, int] = {}
    for i, letter in enumerate(text):
        places[letter] = places.get(letter, 0) | (1 << i)
    return places, len(text)


def _common_subsequence(places: tuple[dict[str, int], int], other: str) -> int:
    """Length of the longest common subsequence, by the bit-parallel algorithm: one big-integer sum per letter."""
    masks, size = places
    full = (1 << size) - 1
    row = full
    for letter in other:
        hit = row & masks.get(letter, 0)
        row = ((row + hit) | (row - hit)) & full
    return size - row.bit_count()


def action_codes(table: StepTable, action_key: str, invalid_key: str) -> tuple[Ints, int]:
    """[n] code of each row's action, and how many codes there are.

    ``action_key``: parsed (column action) or raw (column raw_action, the whole response).
    ``invalid_key``: merge makes all rows with valid=False one action; text tells them apart by raw_action.
    """
    column = "raw_action" if action_key == "raw" else "action"
    code = table.raw_action if action_key == "raw" else table.action
    count = len(table.labels[column])
    if invalid_key == "merge":
        return np.where(table.valid, code, count), count + 1
    return np.where(table.valid, code, count + table.raw_action), count + len(table.labels["raw_action"])
