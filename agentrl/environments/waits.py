"""Who waits on what: a board that every wait is written on, and a watchdog that speaks up when nothing moves."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wait:
    who: str
    what: str
    since: float  # time.monotonic()


class Waits:
    """Open waits of one process.

    with waits.on("step 3 task train/12 member 0", "a step of environment server 1"):
        await ...
    """

    def __init__(self) -> None:
        self._open: dict[int, Wait] = {}
        self._ids = itertools.count()

    @contextmanager
    def on(self, who: str, what: str) -> Iterator[None]:
        key = next(self._ids)
        self._open[key] = Wait(who, what, time.monotonic())
        try:
            yield
        finally:
            del self._open[key]

    def __len__(self) -> int:
        return len(self._open)

    def longer_than(self, seconds: float) -> list[Wait]:
        """Waits open for more than `seconds`, the oldest first."""
        limit = time.monotonic() - seconds
        return sorted((wait for wait in self._open.values() if wait.since <= limit), key=lambda wait: wait.since)

    def describe(self, seconds: float = 0.0, most: int = 5) -> str:
        """The oldest waits in one line, e.g. `A waits for B since 12 s; ... and 3 more`. Empty if there are none."""
        found, now = self.longer_than(seconds), time.monotonic()
        text = "; ".join(f"{wait.who} waits for {wait.what} since {now - wait.since:.0f} s" for wait in found[:most])
        return text + (f"; and {len(found) - most} more" if len(found) > most else "")


async def watch(waits: Waits, after_s: float, report: Callable[[str], None] = logger.warning) -> None:
    """Report, every `after_s` seconds, the waits that are older than that. Runs until cancelled."""
    while True:
        await asyncio.sleep(after_s)
        text = waits.describe(after_s)
        if text:
            report(f"stalled for more than {after_s:.0f} s: {text}")
