"""A room and what can be done in it: plain integers, so that thousands of states are searched in a millisecond.

Cells are numbered row by row. A state is (player, boxes): a cell, and a bit mask of the cells that hold a box.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

MOVES = ("up", "down", "left", "right")
State = tuple[int, int]

# wall, floor, target, box, box on target, player, player on target
SIGNS = "#_OX√PS"


@dataclass(frozen=True)
class Room:
    """size: cells in a row and in a column; floor, targets: bit masks; start: where it begins; optimal: moves of the
    shortest solution from there."""

    size: int
    floor: int
    targets: int
    start: State
    optimal: int

    @cached_property
    def steps(self) -> dict[str, int]:
        """Move -> difference of the cell numbers. The border is wall, so that no step leaves the room."""
        return {"up": -self.size, "down": self.size, "left": -1, "right": 1}

    def after(self, state: State, move: str) -> State:
        """The state after a move; the same one where a wall, or a box that cannot be pushed, is in the way."""
        player, boxes = state
        step = self.steps[move]
        ahead = player + step
        if not self.floor >> ahead & 1:
            return state
        if boxes >> ahead & 1:
            beyond = ahead + step
            if not self.floor >> beyond & 1 or boxes >> beyond & 1:
                return state
            boxes ^= (1 << ahead) | (1 << beyond)
        return ahead, boxes

    def solved(self, state: State) -> bool:
        return state[1] == self.targets

    def text(self, state: State) -> str:
        """One line per row, one sign per cell; see SIGNS."""
        player, boxes = state
        wall, floor, target, box, placed, person, standing = tuple(SIGNS)
        signs = []
        for cell in range(self.size * self.size):
            bit = 1 << cell
            goal = self.targets & bit
            if not self.floor & bit:
                sign = wall
            elif cell == player:
                sign = standing if goal else person
            elif boxes & bit:
                sign = placed if goal else box
            else:
                sign = target if goal else floor
            signs.append(sign)
        rows = range(0, len(signs), self.size)
        return "\n".join("".join(signs[row : row + self.size]) for row in rows)

    def places(self, state: State) -> str:
        """The same in words, a kind of thing on each line: "you r3 c2", "box r2 c2" and so on, by row and column from 0.
        Walls are those inside the border."""
        inner = sum(
            1 << row * self.size + column for row in range(1, self.size - 1) for column in range(1, self.size - 1)
        )
        kinds = (
            ("you", 1 << state[0]),
            ("box", state[1]),
            ("target", self.targets),
            ("wall", inner & ~self.floor),
        )
        named = (
            (kind, ", ".join(f"r{cell // self.size} c{cell % self.size}" for cell in bits(mask)))
            for kind, mask in kinds
        )
        return "\n".join(f"{kind} {cells}" for kind, cells in named if cells)


def bits(mask: int) -> list[int]:
    """The cells of a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
