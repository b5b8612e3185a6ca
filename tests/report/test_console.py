"""What the user reads: on a terminal and in a log."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from report_config import config_for, step_metrics
from rich.console import Console as RichConsole

from agentrl.report.console import HEADER_EVERY, Console


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


def console(file: io.StringIO, *words: str, terminal: bool = False) -> Console:
    config = config_for(None, "trainer.total_training_steps=40", *words)
    rich = RichConsole(file=file, force_terminal=terminal, width=80, highlight=False)
    return Console(config, Path("runs/a-run"), rich)


def test_the_banner_says_what_runs(log: io.StringIO) -> None:
    console(log, "trainer.max_minutes=10", "trainer.groups_per_step=16", "trainer.group_size=8").start()
    text = log.getvalue()
    for part in ("ptgpo_webshop", "advantage ptgpo", "scale=gpu picks the other", "tiny", "webshop", "runs/a-run",
                 "16 tasks x 8 trajectories", "40 steps or 10 minutes"):  # fmt: skip
        assert part in text
    assert "\x1b" not in text, "no colours in a log"


def test_a_step_is_one_line_under_its_titles(log: io.StringIO) -> None:
    shown = console(log)
    for step in range(1, 3):
        shown.step(step, step_metrics(0.43))
    _, titles, first, second = log.getvalue().splitlines()
    assert titles.split() == [
        "step",
        "success",
        "score",
        "turns",
        "valid",
        "signal",
        "kl",
        "entropy",
        "clip",
        "seconds",
    ]
    assert first.split()[:10] == ["1/40", "43%", "0.50", "4.2", "96%", "75%", "0.0012", "0.400", "1.3%", "9.8"]
    assert first.endswith(" left")
    for title, value in (("success", "43%"), ("signal", "75%"), ("clip", "1.3%"), ("seconds", "9.8")):
        assert titles.index(title) + len(title) == second.index(value) + len(value), "columns stand under their titles"


def test_titles_come_again(log: io.StringIO) -> None:
    shown = console(log)
    for step in range(1, HEADER_EVERY + 2):
        shown.step(step, step_metrics(0.5))
    assert sum("entropy" in line for line in log.getvalue().splitlines()) == 2


def test_a_number_that_is_missing_is_a_dash(log: io.StringIO) -> None:
    console(log).step(1, {"rollout/success": 1.0, "seconds/step": 2.0})
    cells = log.getvalue().splitlines()[-1].split()
    assert cells[:4] == ["1/40", "100%", "-", "-"]


def test_time_left_goes_by_the_pace_of_this_process(log: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("agentrl.report.console.time.monotonic", lambda: now[0])
    shown = console(log, "trainer.max_minutes=60")
    shown.resumed(20)
    for step in (21, 22):
        now[0] += 30.0
        shown.step(step, step_metrics(0.5, **{"seconds/step": 30.0, "time/train_seconds": 30.0 * step}))
    assert "about 9 min left" in log.getvalue().splitlines()[-1]  # 18 steps of 30 s


def test_time_left_is_never_more_than_the_minutes_allowed(log: io.StringIO) -> None:
    shown = console(log, "trainer.max_minutes=10")
    shown.step(1, step_metrics(0.5, **{"seconds/step": 300.0, "time/train_seconds": 300.0}))
    assert "about 5 min left" in log.getvalue()
    shown.step(2, step_metrics(0.5, **{"seconds/step": 300.0, "time/train_seconds": 600.0}))
    assert "about 0 s left" in log.getvalue()


def test_text_of_environments_is_not_markup(log: io.StringIO) -> None:
    shown = console(log)
    shown.warn("step 3: a trajectory was dropped: search[red] then click[/x] then [bold]")
    shown.say("[/]")
    assert log.getvalue().splitlines() == [
        "warning: step 3: a trajectory was dropped: search[red] then click[/x] then [bold]",
        "[/]",
    ]


def test_long_lines_of_a_log_stay_lines(log: io.StringIO) -> None:
    console(log).finish(["x" * 300])
    assert log.getvalue() == "x" * 300 + "\n"


def test_evaluation(log: io.StringIO) -> None:
    shown = console(log, "evaluation.tasks=128")
    shown.evaluation(10, {"evaluation/success": 0.625, "evaluation/score": 0.7, "evaluation/lost": 2.0})
    assert log.getvalue() == (
        "evaluation after step 10: success 62.5%, score 0.700 on 128 held-out tasks, 2 episodes lost\n"
    )


def test_a_terminal_has_a_bar_and_gets_its_cursor_back(log: io.StringIO) -> None:
    shown = console(log, terminal=True)
    shown.start()
    shown.step(10, step_metrics(0.5))
    shown.finish(["done"])
    text = log.getvalue()
    assert "10/40" in text and "left" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is shown again"
    assert text.rstrip().endswith("done")
