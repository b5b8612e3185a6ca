"""Memory of a run: the proportional set size of every process that belongs to it, Ray's included."""

from __future__ import annotations

import threading
from pathlib import Path

import psutil


class MemorySampler:
    """Samples in a thread, every `every_s` seconds. `peak` is the highest sum so far, in bytes.

    PSS divides the pages that processes share among them, so that the sum is what is in use. Ray's own processes
    (raylet, GCS, workers) are children of this process when it started Ray; on a joined cluster only this process's
    tree is seen. Where the system has no PSS, the resident size stands in: shared pages then count more than once.
    """

    def __init__(self, every_s: float = 5.0) -> None:
        self.every_s = every_s
        self.peak = 0
        self._last = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def current(self) -> int:
        """Bytes, at the last sample."""
        return self._last or self.sample()

    def sample(self) -> int:
        """Bytes, now."""
        self._last = sum(_bytes(process) for process in _tree())
        self.peak = max(self.peak, self._last)
        return self._last

    def _run(self) -> None:
        while not self._ending.wait(self.every_s):
            self.sample()


def _tree() -> list[psutil.Process]:
    own = psutil.Process()
    try:
        return [own, *own.children(recursive=True)]
    except (psutil.Error, OSError):  # a process that ended while the tree was read
        return [own]


def _bytes(process: psutil.Process) -> int:
    try:
        for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    try:
        return int(process.memory_info().rss)  # 0 for a process that has ended and waits for its parent
    except (psutil.Error, OSError):
        return 0
