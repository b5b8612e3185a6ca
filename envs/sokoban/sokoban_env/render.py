"""A room as a picture: numpy alone, squares in the colours that people know from the game."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sokoban_env.room import SIGNS

TILE = 16  # pixels
COLOURS = dict(zip(SIGNS, (
    (92, 68, 50), (236, 226, 202), (236, 226, 202), (190, 134, 64), (92, 148, 76), (236, 226, 202), (236, 226, 202),
), strict=True))  # fmt: skip
DOT, PERSON = (206, 72, 60), (58, 92, 168)


def picture(text: str) -> NDArray[np.uint8]:
    """uint8[rows * 16, columns * 16, 3] of a room's text."""
    rows = text.split("\n")
    image = np.zeros((len(rows) * TILE, len(rows[0]) * TILE, 3), dtype=np.uint8)
    away = np.hypot(*np.mgrid[-7.5:8.5, -7.5:8.5])
    for top, line in enumerate(rows):
        for left, sign in enumerate(line):
            tile = np.full((TILE, TILE, 3), COLOURS[sign], dtype=np.uint8)
            if sign in "OS":
                tile[away < 3] = DOT
            if sign in "PS":
                tile[(away < 6) & (away >= (3 if sign == "S" else 0))] = PERSON
            if sign in "X√":
                tile[[0, -1]] = tile[:, [0, -1]] = 60
            image[top * TILE : (top + 1) * TILE, left * TILE : (left + 1) * TILE] = tile
    return image
