"""The command itself, in a process of its own: through a local endpoint, and through a rollout worker of a trained run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[2]
SOKOBAN = ["+recipe=grpo_webshop", "scale=cpu", "environment=sokoban", "evaluation.split=test", "evaluation.tasks=24"]
MOVES = ("up", "down", "left", "right")


def start(module: str, *words: str) -> subprocess.Popen[str]:
    environment = {k: v for k, v in os.environ.items() if k != "RAY_ADDRESS"} | {"PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", f"agentrl.{module}", *words], cwd=ROOT, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def end(process: subprocess.Popen[str], status: int = 0) -> str:
    said, _ = process.communicate(timeout=300)
    assert process.returncode == status, said
    return said


def lines(folder: Path) -> list[dict[str, Any]]:
    path = folder / "episodes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def numbers(folder: Path) -> list[dict[str, Any]]:
    """All but the clock, by task."""
    return [{**line, "seconds": 0} for line in sorted(lines(folder), key=lambda line: str(line["task"]))]


def result(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "evaluation.json").read_text()))


def wait_for_lines(folder: Path, count: int, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 120
    while len(lines(folder)) < count:
        assert process.poll() is None and time.monotonic() < limit, process.communicate()[0]
        time.sleep(0.05)


def test_killed_stopped_and_given_again_it_ends_as_one_that_ran_through(endpoint: Any, tmp_path: Path) -> None:
    pause = [0.0]

    def model(messages: list[dict[str, str]], body: dict[str, Any]) -> str:
        time.sleep(pause[0])
        return f"Thought: by the seed\nAction: {MOVES[body['seed'] % 4]}"

    endpoint.model = model
    words = [*SOKOBAN, "agent=react", "backend=openai", f"endpoint.url={endpoint.url}", "endpoint.model=solver-1"]
    words += ["environment.max_turns=6", "endpoint.concurrency=4"]
    said = end(start("evaluate", *words, f"out={tmp_path / 'whole'}"))
    assert "24/24 tasks" in said and "agent          react" in said
    whole = result(tmp_path / "whole")
    assert whole["state"] == "done" and whole["all"]["tasks"] == 24 and whole["tasks_left"] == 0
    asked = len(endpoint.asked)
    assert whole["all"]["prompt_tokens"] > 0 and whole["counters"]["model"]["requests"] == asked - 1  # one to try it

    pause[0] = 0.1
    parts = tmp_path / "parts"
    first = start("evaluate", *words, f"out={parts}")
    wait_for_lines(parts, 3, first)
    for process in [*psutil.Process(first.pid).children(recursive=True), psutil.Process(first.pid)]:
        process.kill()
    first.communicate()
    kept = len(lines(parts))
    second = start("evaluate", *words, f"out={parts}")
    wait_for_lines(parts, kept + 2, second)
    second.send_signal(signal.SIGTERM)
    said = end(second)
    assert "are there from before" in said and "left to play" in said and result(parts)["state"] == "stopped"
    pause[0] = 0.0
    end(start("evaluate", *words, f"out={parts}"))
    assert numbers(parts) == numbers(tmp_path / "whole") and len(numbers(parts)) == 24
    assert {k: v for k, v in result(parts)["all"].items()} == whole["all"]
    # nothing left: nothing is asked, and the table is shown again
    asked = len(endpoint.asked)
    said = end(start("evaluate", *words, f"out={parts}"))
    assert "nothing is left to play" in said and len(endpoint.asked) == asked
    assert len(list((parts / "transcripts").glob("*.txt"))) == 8


def test_an_endpoint_that_fails_for_good_ends_it_with_what_it_has(endpoint: Any, tmp_path: Path) -> None:
    def model(messages: list[dict[str, str]], body: dict[str, Any]) -> str:
        if len(endpoint.asked) > 60:
            endpoint.faults = [(500, {"error": {"message": "out of order"}}, {})] * 99
        return "up"

    endpoint.model = model
    words = [*SOKOBAN, "agent=direct", "backend=openai", f"endpoint.url={endpoint.url}", "endpoint.model=solver-1"]
    words += ["endpoint.max_retries=1", "endpoint.backoff_s=0.01", "endpoint.concurrency=2", f"out={tmp_path / 'out'}"]
    said = end(start("evaluate", *words), status=1)
    assert "agentrl: endpoint.url=" in said and "500 out of order" in said and "Traceback" not in said
    assert "left to play; the same command goes on" in said
    found = result(tmp_path / "out")
    assert found["state"] == "failed" and 0 < found["all"]["tasks"] < 24


def test_a_checkpoint_scores_as_its_training_run_says(tmp_path: Path) -> None:
    run = tmp_path / "run"
    end(start("main", "+recipe=grpo_webshop", "scale=cpu", "seed=3", "rollout.deterministic=true", f"trainer.run_dir={run}",
              "trainer.total_training_steps=1", "trainer.groups_per_step=2", "trainer.group_size=2",
              "environment.max_turns=6", "evaluation.tasks=12", "evaluation.every=0"))  # fmt: skip
    trained = json.loads((run / "summary.json").read_text())
    said = end(start("evaluate", str(run), "evaluation.tasks=12"))
    (folder,) = (run / "evaluation").iterdir()
    found = result(folder)
    assert found["checkpoint_step"] == 1 and found["state"] == "done"
    assert found["all"]["success"] == trained["success_after"], said
    evaluations = [json.loads(line) for line in (run / "evaluations.jsonl").read_text().splitlines()]
    assert found["all"]["score"] == pytest.approx(evaluations[-1]["evaluation/score"])
    assert found["all"]["turns"] == pytest.approx(evaluations[-1]["evaluation/episode_length"])
