"""Learning-rate schedules as a factor of the peak rate; `step` counts finished updates from 0."""

from __future__ import annotations

import math


def factor(step: int, schedule: str, warmup_steps: int, total_steps: int) -> float:
    """Linear warm-up whose first step already learns ((step+1)/(warmup+1)), then constant, linear or cosine to 0.

    The decay reaches 0 one step after the last of `total_steps`, so that every step learns; beyond that it stays 0.
    """
    if step < warmup_steps:
        return (step + 1) / (warmup_steps + 1)
    if schedule == "constant":
        return 1.0
    done = min(1.0, (step - warmup_steps) / max(1, total_steps - warmup_steps))
    if schedule == "linear":
        return 1.0 - done
    if schedule == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * done))
    raise ValueError(f"lr_schedule={schedule!r}: must be constant, linear or cosine")
