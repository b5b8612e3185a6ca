"""The end of a run: summary.json, the curve, the last words."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from report_config import config_for, step_metrics

from agentrl.config import recipe_names
from agentrl.report.curve import plot_learning_curve
from agentrl.report.metrics_log import MetricsLog
from agentrl.report.summary import closing_words, finish

KEYS = {
    "recipe", "seed", "steps", "eval_tasks", "success_before", "success_after", "train_seconds", "first_step_seconds",
    "peak_memory_bytes", "dropped_trajectories", "retried_trajectories", "dropped_groups", "resumed_from",
}  # fmt: skip


def ended_run(folder: Path, **changes: Any) -> Any:
    """The state of the driver after its last step, with real logs."""
    config = config_for(folder, "trainer.total_training_steps=4", "evaluation.tasks=128", *changes.pop("words", ()))
    log = MetricsLog(folder, config)
    log.log_evaluation(0, {"evaluation/success": 0.25})
    for step in range(1, 5):
        log.log(step, step_metrics(0.2 * step))
    log.log_evaluation(4, {"evaluation/success": 0.5})
    log.close()
    said: list[str] = []
    state = {
        "config": config,
        "directory": SimpleNamespace(path=folder),
        "step": 4,
        "success_before": 0.25,
        "success_after": 0.5,
        "last_evaluation_step": 4,
        "train_seconds": 90.0,
        "started": time.time() - 200.0,
        "first_step_seconds": 40.0,
        "memory": SimpleNamespace(peak=3 << 30),
        "counts": Counter(dropped_trajectories=1, retried_trajectories=2, dropped_groups=0),
        "resumed_from": None,
        "stop": SimpleNamespace(reason=None),
        "episodes": SimpleNamespace(pool=SimpleNamespace(counters={"restarts": 1})),
        "router": SimpleNamespace(counters={"retries": np.int64(2)}),
        "data_fingerprint": "f00d",
        "console": SimpleNamespace(finish=said.extend, warn=lambda text: said.append(f"warning: {text}")),
        "said": said,
    }
    return SimpleNamespace(**(state | changes))


def test_the_summary_has_the_promised_keys(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    returned = finish(run)
    stored = json.loads((tmp_path / "summary.json").read_text())
    assert stored.keys() >= KEYS and stored == json.loads(json.dumps(returned, default=int))
    assert (stored["recipe"], stored["seed"], stored["steps"], stored["eval_tasks"]) == ("ptgpo_webshop", 7, 4, 128)
    assert (stored["success_before"], stored["success_after"]) == (0.25, 0.5)
    assert (stored["dropped_trajectories"], stored["retried_trajectories"], stored["dropped_groups"]) == (1, 2, 0)
    assert stored["peak_memory_bytes"] == 3 << 30 and stored["resumed_from"] is None
    assert 199 < stored["wall_seconds"] < 260


def test_the_last_words(tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    finish(run)
    text = "\n".join(run.said)
    assert "25.0% -> 50.0% (+25.0 points) on the same 128 tasks, 4 steps, 1.5 minutes" in text
    assert "peak memory 3.0 GiB" in text and "40 s after the start" in text
    for place in ("learning_curve.png", "metrics.jsonl", "tensorboard", "episodes", "checkpoints/step_4"):
        assert str(tmp_path / place) in text
    assert "dropped trajectories 1" in text


def test_a_stopped_run_says_how_to_go_on(tmp_path: Path) -> None:
    run = ended_run(tmp_path, stop=SimpleNamespace(reason="SIGTERM"), step=3)
    finish(run)
    assert any(f"-m agentrl.main resume={tmp_path}" in line for line in run.said)
    assert any("stopped by SIGTERM after step 3" in line for line in run.said)
    assert not any("points" in line for line in run.said), "half a run is not a result"


@pytest.mark.parametrize("recipe", [*recipe_names(), "mine", "grpo_webshop+short"])
def test_the_next_command_is_one_that_exists(recipe: str, tmp_path: Path) -> None:
    run = ended_run(tmp_path)
    environment = recipe.rpartition("_")[2] if recipe in recipe_names() else "webshop"
    summary = finish(run) | {"recipe": recipe, "environment": environment}
    words = closing_words(summary, tmp_path, None)[-1].split("agentrl.main ")[1].split()
    assert words[0].startswith("+recipe=")
    if recipe in recipe_names():
        other = words[0].removeprefix("+recipe=")
        assert other in recipe_names() and other != recipe and words[1] == "seed=7"
        assert other.endswith(f"_{environment}")
    else:
        assert words[1] == "seed=8"
    if "+" in recipe:
        assert words[0] == "+recipe=[grpo_webshop,short]"


def test_a_picture_that_fails_costs_nothing_but_the_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no fonts")

    monkeypatch.setattr("agentrl.report.summary.plot_learning_curve", broken)
    run = ended_run(tmp_path)
    finish(run)
    assert any("no fonts" in line for line in run.said) and (tmp_path / "summary.json").is_file()
    assert not any("learning curve  " in line for line in run.said)


def test_the_curve_shows_both_successes(tmp_path: Path) -> None:
    from matplotlib import image

    ended_run(tmp_path)
    path = plot_learning_curve(tmp_path, "a title")
    assert path == tmp_path / "learning_curve.png"
    picture = image.imread(path)[..., :3]
    assert picture.shape == (480, 840, 3)
    orange = np.abs(picture - np.array([255, 127, 14]) / 255).max(axis=-1) < 0.05
    bluish = (picture[..., 2] - picture[..., 0]) > 0.2
    for colour in (orange, bluish):
        rows, columns = np.nonzero(colour[:, 100:])
        assert columns.size > 50
    # held-out success starts at 25 % on the left and rises to the right, that is, upwards in the picture
    rows, columns = np.nonzero(orange)
    inside = columns < np.quantile(columns, 0.2)
    assert rows[inside].mean() > rows[columns > np.quantile(columns, 0.95)].mean()
    assert [p.name for p in tmp_path.glob(".*partial*")] == []


def test_no_curve_of_nothing(tmp_path: Path) -> None:
    MetricsLog(tmp_path, config_for()).close()
    assert plot_learning_curve(tmp_path, "a title") is None
