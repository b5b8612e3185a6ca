"""Runs of the real program in a process of its own, as a user starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]
# a machine that tests run on may be busy: what matters is that nothing waits for ever
DEADLINE_S = 480.0


class Running:
    """`python -m agentrl.main WORDS`, its output in `output`."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.folder = folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.output = folder.with_suffix(f".{time.time_ns()}.log")
        environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | {"PYTHONPATH": str(ROOT)}
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "agentrl.main", *words],
                cwd=ROOT, env=environment, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def said(self) -> str:
        return self.output.read_text()

    def steps(self) -> list[dict[str, Any]]:
        return [line for line in self._metrics() if line["kind"] == "step"]

    def _metrics(self) -> list[dict[str, Any]]:
        path = self.folder / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def wait_for(self, condition: Callable[[], Any], what: str) -> Any:
        end = time.monotonic() + DEADLINE_S
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            assert self.process.poll() is None, f"ended while waiting for {what}:\n{self.said()}"
            time.sleep(0.2)
        raise AssertionError(f"no {what} within {DEADLINE_S:.0f} s:\n{self.said()}")

    def children(self, name: str) -> list[psutil.Process]:
        """Ray's processes of this run whose title holds `name`."""
        found = []
        for child in psutil.Process(self.process.pid).children(recursive=True):
            try:
                if name in " ".join(child.cmdline()):
                    found.append(child)
            except psutil.Error:
                continue
        return found

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> dict[str, Any]:
        """Wait for the end; exit status 0 is demanded. Returns summary.json."""
        try:
            status = self.process.wait(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"did not end within {DEADLINE_S:.0f} s:\n{self.said()}") from None
        assert status == 0, self.said()
        return dict(json.loads((self.folder / "summary.json").read_text()))

    def kill(self) -> None:
        for process in [*psutil.Process(self.process.pid).children(recursive=True), psutil.Process(self.process.pid)]:
            try:
                process.kill()
            except psutil.Error:
                continue
