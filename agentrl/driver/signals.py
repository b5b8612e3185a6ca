"""SIGINT and SIGTERM: finish the step in hand, save, exit 0. A second signal ends the process at once."""

from __future__ import annotations

import os
import signal
from types import FrameType


class StopRequest:
    """Whether the user asked to stop, and with which signal."""

    def __init__(self, doing: str = "finishing this step, then saving") -> None:
        self.reason: str | None = None
        self.doing = doing

    def __bool__(self) -> bool:
        return self.reason is not None

    def install(self) -> None:
        """Take over SIGINT and SIGTERM (Ray installs handlers of its own at `init`: call this after it)."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None:
            os._exit(128 + number)
        self.reason = signal.Signals(number).name
        os.write(2, f"\n{self.reason}: {self.doing}. Once more to quit at once.\n".encode())
