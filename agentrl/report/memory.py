"""Memory of a run: the proportional set size of every process that belongs to it, Ray's included."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil


class MemorySampler:
    """Samples in a thread. PSS shares the pages that processes have in common, so that the sum is what is in use.

    Ray's own processes (raylet, GCS, workers) are children of this process when it started Ray; on a joined cluster
    only this process's tree is seen.
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
        self._thread.join(timeout=10)

    def current(self) -> int:
        """Bytes, at the last sample."""
        return self._last or self._sample()

    def _run(self) -> None:
        while not self._ending.wait(self.every_s):
            self._sample()

    def _sample(self) -> int:
        tree = [psutil.Process(), *psutil.Process().children(recursive=True)]
        self._last = sum(_pss(process.pid) for process in tree)
        self.peak = max(self.peak, self._last)
        return self._last


def _pss(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) << 10
    except OSError:
        pass
    try:
        return int(psutil.Process(pid).memory_info().rss) if os.name != "posix" or not Path("/proc").exists() else 0
    except psutil.Error:
        return 0
