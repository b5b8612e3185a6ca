"""Breadth-first search over a room's states, forwards from a state and backwards from all solved ones."""

from __future__ import annotations

import random
from collections import deque

from sokoban_env.room import MOVES, Room, State, bits

MOST_STATES = 60_000


def distances(size: int, floor: int, targets: int, longest: int, most: int = MOST_STATES) -> dict[State, int]:
    """State -> moves of its shortest solution, for states of up to `longest` moves (fewer where `most` states are met).

    Plays backwards from every solved state at once: the player walks, and may pull the box behind him. What is met
    first is met by the shortest way, so that every number is exact.
    """
    steps = (-size, size, -1, 1)
    found: dict[State, int] = {(cell, targets): 0 for cell in bits(floor & ~targets)}
    level = list(found)
    for moves in range(1, longest + 1):
        following: list[State] = []
        for player, boxes in level:
            for step in steps:
                back = player - step  # the move `step` led from `back` to `player`
                if not floor >> back & 1 or boxes >> back & 1:
                    continue
                ahead = player + step
                before = [(back, boxes)]
                if boxes >> ahead & 1:  # and may have pushed a box from `player` to `ahead`
                    before.append((back, boxes ^ ((1 << ahead) | (1 << player))))
                for state in before:
                    if state not in found:
                        found[state] = moves
                        following.append(state)
        level = following
        if not level or len(found) >= most:
            break
    return found


def solution(room: Room, state: State, most: int = 400_000) -> list[str] | None:
    """Moves of a shortest solution; None where there is none, or none is found within `most` states."""
    if room.solved(state):
        return []
    came: dict[State, tuple[State, str]] = {}
    seen = {state}
    queue = deque([state])
    while queue and len(seen) < most:
        here = queue.popleft()
        for move in MOVES:
            there = room.after(here, move)
            if there in seen:
                continue
            came[there] = here, move
            if room.solved(there):
                moves = []
                while there != state:
                    there, move = came[there]
                    moves.append(move)
                return moves[::-1]
            seen.add(there)
            queue.append(there)
    return None


def draw_state(found: dict[State, int], targets: int, shortest: int, longest: int, rng: random.Random) -> State | None:
    """A start whose solution has from `shortest` to `longest` moves and in which no box is on a target; None if none is."""
    fit = sorted(state for state, moves in found.items() if shortest <= moves <= longest and not state[1] & targets)
    return rng.choice(fit) if fit else None
