"""One evaluation in several parts, in this process: what evaluation.json says of them all, and why one of them ended."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from agentrl.baselines.check import check
from agentrl.baselines.request import resolve
from agentrl.baselines.results import added
from agentrl.baselines.run import Evaluating, evaluate
from agentrl.baselines.words import read_words

SOKOBAN = [
    "+recipe=grpo_webshop",
    "scale=cpu",
    "environment=sokoban",
    "environment.max_turns=2",
    "evaluation.split=test",
]


@pytest.fixture(autouse=True)
def without_ray(monkeypatch: pytest.MonkeyPatch, local_pool: Any) -> None:
    class Pool(local_pool):  # type: ignore[misc]
        free_slots = 1

        async def start(self) -> None:
            self.counters: Counter[str] = Counter()

        async def close(self) -> None:
            pass

        async def open(self, *task: Any) -> Any:
            self.counters["opened"] += 1
            return await super().open(*task)

    monkeypatch.setattr("ray.shutdown", lambda: None)
    monkeypatch.setattr("agentrl.driver.cluster.connect", lambda *_: None)
    monkeypatch.setattr(
        "agentrl.driver.run.environment_pool", lambda config: Pool(config.environment.name, config.environment.options)
    )
    monkeypatch.setattr("agentrl.driver.signals.StopRequest.install", lambda _: None)


def part(endpoint: Any, out: Path, tasks: int, *more: str) -> tuple[int, dict[str, Any]]:
    """The exit status and evaluation.json of the same command, up to the number of tasks."""
    words = [*SOKOBAN, "agent=direct", "backend=openai", f"endpoint.url={endpoint.url}", "endpoint.model=solver-1"]
    words += [f"evaluation.tasks={tasks}", "endpoint.backoff_s=0.01", "endpoint.max_retries=0", f"out={out}", *more]
    status = evaluate(check(resolve(read_words(words))))
    return status, told(out)


def told(out: Path) -> dict[str, Any]:
    return dict(json.loads((out / "evaluation.json").read_text()))


def test_counters_and_seconds_are_those_of_all_parts(endpoint: Any, tmp_path: Path) -> None:
    _, one = part(endpoint, tmp_path, 2)
    assert one["counters"]["model"]["requests"] == 4 and one["counters"]["environment"]["opened"] == 2
    _, two = part(endpoint, tmp_path, 5)
    assert two["counters"]["model"]["requests"] == 10 and two["counters"]["environment"]["opened"] == 5
    assert two["counters"]["model"]["response_tokens"] == two["all"]["response_tokens"] == 10
    assert two["seconds"] > one["seconds"] > 0
    # given again it plays nothing, and nothing is lost
    status, again = part(endpoint, tmp_path, 5)
    assert status == 0 and again == two


def test_a_part_that_is_killed_is_counted_as_far_as_it_said_something(
    endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as killed:
        killed.setattr(Evaluating, "finish", lambda *_: 0)
        part(endpoint, tmp_path, 2)
    assert told(tmp_path)["state"] == "running"
    _, whole = part(endpoint, tmp_path, 3)
    assert whole["counters"]["model"]["requests"] == 6 and whole["state"] == "done"


def test_why_an_endpoint_ended_it_is_written_down(endpoint: Any, tmp_path: Path, capsys: Any) -> None:
    endpoint.model = lambda messages, body: (
        endpoint.faults.append((500, {"error": "out of order"}, {})) or "up" if len(endpoint.asked) == 4 else "up"
    )
    status, failed = part(endpoint, tmp_path, 3)
    assert status == 1 and failed["state"] == "failed" and "500 out of order" in failed["reason"]
    assert failed["reason"] in capsys.readouterr().err
    assert failed["counters"]["model"]["requests"] == 4 and failed["tasks_left"] == 2
    endpoint.model = lambda messages, body: "up"
    status, done = part(endpoint, tmp_path, 3)
    assert status == 0 and done["state"] == "done" and done["reason"] == ""
    assert done["counters"]["model"]["requests"] == 4 + 4


def test_why_anything_else_ended_it_is_written_down(
    endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no\nserver " + "x" * 1000)

    monkeypatch.setattr("agentrl.driver.cluster.connect", broken)
    with pytest.raises(RuntimeError, match="no\nserver"):
        part(endpoint, tmp_path, 2)
    failed = told(tmp_path)
    assert (
        failed["state"] == "failed" and failed["reason"].startswith("RuntimeError('no") and len(failed["reason"]) == 300
    )


def test_counters_are_added_by_name() -> None:
    one = {"model": {"requests": 2, "retries": 1}, "note": "old"}
    assert added(one, {"model": {"requests": 3, "timeouts": 4}, "note": "new"}) == {
        "model": {"requests": 5, "retries": 1, "timeouts": 4},
        "note": "new",
    }
    assert added({}, one) == added(one, {}) == one
