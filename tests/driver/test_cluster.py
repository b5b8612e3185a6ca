"""Joining a cluster that somebody else started, as RAY_ADDRESS and `ray job submit` name it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytestmark = [pytest.mark.engine, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]
RAY = str(Path(sys.executable).parent / "ray")
WORDS = [
    "+recipe=grpo_webshop",
    "scale=cpu",
    "trainer.total_training_steps=1",
    "trainer.groups_per_step=2",
    "trainer.group_size=2",
    "evaluation.tasks=2",
    "evaluation.every=0",
]


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, str], int, int]]:
    """(environment of a client, port of Ray, port of its dashboard)"""
    port, dashboard, agent = free_ports(3)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")} | {"RAY_AUTH_MODE": "disabled"}
    command = [
        RAY, "start", "--head", "--block", f"--port={port}", "--num-cpus=4", f"--dashboard-port={dashboard}",
        f"--dashboard-agent-listen-port={agent}", "--object-store-memory=200000000", "--disable-usage-stats",
    ]  # fmt: skip
    log = tmp_path_factory.mktemp("head") / "log"
    with log.open("w") as file:
        head = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
    try:
        end = time.monotonic() + 120
        while "runtime started" not in log.read_text():
            assert head.poll() is None and time.monotonic() < end, log.read_text()
            time.sleep(0.5)
        yield environment, port, dashboard
    finally:
        for process in [*psutil.Process(head.pid).children(recursive=True), head]:
            with contextlib.suppress(psutil.Error, OSError):
                process.kill()
        head.wait()


def finished(folder: Path) -> bool:
    return json.loads((folder / "summary.json").read_text())["steps"] == 1


def test_a_run_joins_the_cluster_and_leaves_nothing_there(
    cluster: tuple[dict[str, str], int, int], tmp_path: Path
) -> None:
    environment, port, _ = cluster
    done = subprocess.run(
        [sys.executable, "-m", "agentrl.main", *WORDS, f"trainer.run_dir={tmp_path / 'run'}"],
        env=environment | {"RAY_ADDRESS": f"127.0.0.1:{port}"}, cwd=ROOT, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert finished(tmp_path / "run")
    left = subprocess.run(
        [RAY, "list", "actors", "--address", f"127.0.0.1:{port}", "--filter", "state=ALIVE"],
        env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert left.returncode == 0 and "No resource in the cluster" in left.stdout, left.stdout + left.stderr


def test_a_submitted_job_runs(cluster: tuple[dict[str, str], int, int], tmp_path: Path) -> None:
    environment, _, dashboard = cluster
    words = [sys.executable, "-m", "agentrl.main", *WORDS, f"trainer.run_dir={tmp_path / 'job'}"]
    done = subprocess.run(
        [RAY, "job", "submit", "--address", f"http://127.0.0.1:{dashboard}", "--", *words],
        env=environment, capture_output=True, text=True, timeout=400,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert finished(tmp_path / "job")
