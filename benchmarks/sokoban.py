"""Speed of Sokoban-v0 on one core: steps with text and info, making rooms. Run it with `taskset -c 1` where others work.

    python benchmarks/sokoban.py

The ratio beside the steps is to a floor that only joins 36 signs into six lines.
"""

from __future__ import annotations

import random
import time

from sokoban_env import plugin
from sokoban_env.generate import LEVELS, NoRoom, room_of
from sokoban_env.room import MOVES

STEPS = 100_000


def main() -> None:
    env, rng = plugin.make(), random.Random(0)
    moves = rng.choices(MOVES, k=STEPS)
    env.reset(options={"task_id": "train/000000"})
    start = time.perf_counter()
    for number, move in enumerate(moves):
        if env.step(move)[2] or number % 15 == 14:
            env.reset(options={"task_id": f"train/{number % 300:06d}"})
    rate = STEPS / (time.perf_counter() - start)
    signs = ["_"] * 36
    start = time.perf_counter()
    for _ in range(STEPS):
        "\n".join("".join(signs[row : row + 6]) for row in range(0, 36, 6))
    floor = STEPS / (time.perf_counter() - start)
    print(f"{rate:,.0f} steps per second, resets of known rooms included ({rate / floor:.2f} of the floor)")
    for size, boxes in ((6, 1), (6, 2), (7, 2), (8, 3), (10, 4)):
        for level in LEVELS:
            start, made = time.perf_counter(), 0
            try:
                for number in range(20):
                    room_of("train", 50_000 + number, size, boxes, level)
                    made += 1
            except NoRoom as error:
                print(error)
            print(
                f"room {size} x {size}, {boxes} boxes, {level:<7}{1e3 * (time.perf_counter() - start) / max(1, made):8.2f} ms"
            )


if __name__ == "__main__":
    main()
