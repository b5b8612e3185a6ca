"""The folder of an evaluation, and the averages in it."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from agentrl.baselines.agents import Played
from agentrl.baselines.results import Results, summarise, table
from agentrl.config import ConfigError
from agentrl.episode.records import Trajectory, Turn

WHO: dict[str, Any] = {"agent": "react", "environment": {"name": "sokoban", "options": {"size": 6}}, "split": "test"}


def played(task: str, *successes: bool, kind: str = "easy", turns: int = 2) -> Played:
    made = Played(task, prompt_tokens=10, response_tokens=3)
    for trial, success in enumerate(successes):
        one = Trajectory(
            0, -1, task, trial, success=success, score=0.5 + 0.5 * success, task_type=kind, ended="max_turns"
        )
        one.turns = [Turn([1], [2], [], "page ✓ \ud83d", "go", "go", valid=k > 0) for k in range(turns)]
        made.trials.append(one)
    made.notes = ["note"] * (len(successes) - 1)
    return made


def test_a_line_per_task_and_the_rest_when_opened_again(tmp_path: Path) -> None:
    with Results(tmp_path / "out", WHO) as results:
        results.begin({"state": "running"})
        results.add(played("test/1", True))
        assert len((tmp_path / "out" / "episodes.jsonl").read_text().splitlines()) == 1  # at once
        results.add(played("test/2", False, True), transcript=True)
    with (tmp_path / "out" / "episodes.jsonl").open("a") as file:
        file.write('{"task": "test/3", "succ')  # a crash
    with Results(tmp_path / "out", WHO) as results:
        assert list(results.lines) == ["test/1", "test/2"]
        results.begin({"state": "running"})
        results.add(played("test/3", False))
    lines = [json.loads(line) for line in (tmp_path / "out" / "episodes.jsonl").read_text().splitlines()]
    assert [line["task"] for line in lines] == ["test/1", "test/2", "test/3"]
    assert lines[1]["notes"] == ["note"] and [trial["success"] for trial in lines[1]["trials"]] == [False, True]
    text = (tmp_path / "out" / "transcripts" / "test_2.txt").read_text()
    assert "trial 1 of 2" in text and "trial 2 of 2" in text and "=== note" in text


def test_killed_while_it_writes_a_task_loses_no_transcript(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "transcripts" / "test_1.txt"
    with Results(tmp_path, WHO) as results:
        results.begin({"state": "running"})
        there: list[bool] = []
        monkeypatch.setattr("os.fsync", lambda _: there.append(text.is_file()))
        results.add(played("test/1", True), transcript=True)
    # the last thing to reach the disk is the line, which says that the task need not be played again
    assert there[-1] is True


def test_another_evaluation_is_refused_and_the_first_difference_named(tmp_path: Path) -> None:
    with Results(tmp_path, WHO) as results:
        results.begin({})
    other = WHO | {"environment": {"name": "sokoban", "options": {"size": 7}}}
    with pytest.raises(ConfigError, match=r"environment\.options\.size=6, and this one has 7; name another"):
        Results(tmp_path, other).__enter__()
    (tmp_path / "evaluation.json").unlink()
    with pytest.raises(ConfigError, match=r"no evaluation\.json"):
        Results(tmp_path, WHO).__enter__()


def hold(folder: Path, held: Any, end: Any) -> None:
    with Results(folder, WHO):
        held.set()
        end.wait(30)


def test_one_process_at_a_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    held, end = context.Event(), context.Event()
    other = context.Process(target=hold, args=(tmp_path, held, end))
    other.start()
    try:
        assert held.wait(30)
        with pytest.raises(ConfigError, match="another process evaluates into it"):
            Results(tmp_path, WHO).__enter__()
    finally:
        end.set()
        other.join()
    with Results(tmp_path, WHO):
        pass


def test_what_played_nothing_leaves_nothing(tmp_path: Path) -> None:
    with Results(tmp_path / "out", WHO):
        pass
    assert not (tmp_path / "out").exists()


def test_averages_and_their_errors(tmp_path: Path) -> None:
    with Results(tmp_path, WHO) as results:
        results.begin({})
        lines = [
            results.add(played("1", True, kind="easy")),
            results.add(played("2", False, True, kind="easy", turns=4)),
            results.add(played("3", False, False, kind="hard")),
        ]
    summary = summarise(lines)
    everything, easy = summary["all"], summary["by_task_type"]["easy"]
    assert everything["tasks"] == 3 and everything["success"] == pytest.approx(2 / 3)
    assert everything["success_error"] == pytest.approx((1 / 3) ** 0.5 / 3**0.5)  # s^2 = 1/3
    assert everything["success_by_trial"] == pytest.approx([1 / 3, 2 / 3])
    assert easy["success"] == 1.0 and easy["success_error"] == 0.0 and easy["turns"] == 3.0
    assert summary["by_task_type"]["hard"]["success_error"] is None
    assert everything["prompt_tokens"] == 30 and everything["invalid_turn_share"] == pytest.approx(5 / 14)
    lines[0]["prompt_tokens"] = None
    assert summarise(lines)["all"]["prompt_tokens"] is None
    rows = table(summary)
    assert [row.split()[0] for row in rows[1:]] == ["easy", "hard", "all"] and "within 2" in rows[0]
    assert summarise([])["all"] == {"tasks": 0}
    assert table(summarise([]))
