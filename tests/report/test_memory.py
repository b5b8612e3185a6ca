"""Memory: what belongs to the run is counted, shared pages once, ended processes not at all."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from agentrl.report.memory import MemorySampler

MIB = 1 << 20
GRANDCHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "b = b'x' * (200 << 20); print('ready', flush=True); input()"],
                         stdin=sys.stdin)
child.wait()
"""
SHARED = """
import os, time
block = bytearray(b"x") * (200 << 20)
children = []
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
    children.append(pid)
print("ready", flush=True)
input()
for pid in children:
    os.kill(pid, 9)
"""


def started(code: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("code", [GRANDCHILD, SHARED], ids=["a process of a process", "shared pages count once"])
def test_counts_200_mib_of_the_tree(code: str) -> None:
    sampler = MemorySampler()
    before = sampler.sample()
    process = started(code)
    with_it = sampler.sample()
    process.communicate("\n", timeout=30)
    after = sampler.sample()
    assert 195 * MIB < with_it - before < 300 * MIB
    assert after < with_it - 195 * MIB
    assert sampler.peak == with_it and sampler.current() == after


def test_the_thread_sees_a_peak_and_ends() -> None:
    sampler = MemorySampler(every_s=0.05)
    sampler.start()
    own = sampler.current()
    process = started(GRANDCHILD)
    end = time.monotonic() + 20
    while sampler.peak < own + 195 * MIB and time.monotonic() < end:
        time.sleep(0.05)
    process.communicate("\n", timeout=30)
    sampler.stop()
    assert sampler.peak > own + 195 * MIB
    assert not sampler._thread.is_alive()


def test_stop_without_start() -> None:
    MemorySampler().stop()


def test_a_process_that_ends_while_it_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    import psutil

    def gone(self: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
        raise psutil.NoSuchProcess(self.pid)

    monkeypatch.setattr(psutil.Process, "children", gone)
    assert MemorySampler().sample() > 0
