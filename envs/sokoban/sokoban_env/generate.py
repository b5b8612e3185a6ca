"""Rooms by reverse play, the same for a seed on every machine; no room stands in two splits."""

from __future__ import annotations

import random
from functools import lru_cache
from hashlib import blake2b

from sokoban_env.room import Room
from sokoban_env.search import distances, draw_state

GENERATOR = 1  # raise it with any change that changes rooms
LEVELS = {"easy": (2, 5), "medium": (6, 10), "hard": (11, 15)}  # moves of the shortest solution
SPLITS = {"train": (0, 100_000), "validation": (200_000, 1_000), "test": (300_000, 1_000)}  # first seed, number
SHARES = {"train": range(0, 8), "validation": range(8, 9), "test": range(9, 10)}  # of the rooms, by their hash
TRIES = 20_000


class NoRoom(ValueError):
    """No room with the parameters asked for was found."""


def room_of(split: str, number: int, size: int, boxes: int, level: str) -> Room:
    """Room `number` of a split. NoRoom after 20,000 tries: such rooms hardly exist."""
    return _room(SPLITS[split][0] + number, SHARES[split], size, boxes, level)


@lru_cache(maxsize=4096)
def _room(seed: int, shares: range, size: int, boxes: int, level: str) -> Room:
    rng = random.Random(f"sokoban {GENERATOR} {seed} {size} {boxes} {level}")
    shortest, longest = LEVELS[level]
    for _ in range(TRIES):
        floor = _floor(rng, size, boxes)
        cells = [cell for cell in range(size * size) if floor >> cell & 1]
        if len(cells) < boxes + 3:
            continue
        targets = sum(1 << cell for cell in rng.sample(cells, boxes))
        start = draw_state(distances(size, floor, targets, longest), targets, shortest, longest, rng)
        if start is None or _share(size, floor, targets, start) not in shares:
            continue
        moves = distances(size, floor, targets, longest)[start]
        return Room(size, floor, targets, start, moves)
    raise NoRoom(
        f"size={size}, boxes={boxes}, difficulty={level}: no such room in {TRIES} tries; take a larger size or fewer boxes."
    )


def _floor(rng: random.Random, size: int, boxes: int) -> int:
    """What a walk through solid rock lays open: the border stays wall."""
    inside = size - 2
    wanted = min(inside * inside, max(boxes + 6, round(inside * inside * rng.uniform(0.55, 0.9))))
    row, column = rng.randrange(1, size - 1), rng.randrange(1, size - 1)
    floor = 1 << (row * size + column)
    for _ in range(40 * inside * inside):
        if floor.bit_count() >= wanted:
            break
        step = rng.choice(((-1, 0), (1, 0), (0, -1), (0, 1)))
        row, column = min(max(row + step[0], 1), size - 2), min(max(column + step[1], 1), size - 2)
        floor |= 1 << (row * size + column)
    return floor


def _share(size: int, floor: int, targets: int, start: tuple[int, int]) -> int:
    """0..9, by what the room is and not by its seed."""
    return blake2b(f"{size} {floor} {targets} {start}".encode(), digest_size=8).digest()[0] % 10
