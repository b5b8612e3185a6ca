"""The logs: what is written where, in which form, and what a resume leaves of it."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from report_config import config_for, step_metrics
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agentrl.report.metrics_log import MetricsLog, read_evaluations, read_metrics
from agentrl.report.wandb_run import has_key


def curve(folder: Path, tag: str) -> list[tuple[int, float]]:
    """What TensorBoard shows."""
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, round(event.value, 6)) for event in events.Scalars(tag)]


def test_one_object_per_step_at_once(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, config_for())
    for step in (1, 2):
        log.log(step, step_metrics(step / 10, sizes=[8, 8]))
        lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
        assert len(lines) == step, "readable while the run goes on"
        assert json.loads(lines[-1])["rollout/success"] == step / 10
    assert curve(tmp_path, "rollout/success") == [(1, 0.1), (2, 0.2)]
    log.close()
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]
    assert read_metrics(tmp_path)[0]["sizes"] == [8, 8]


def test_evaluations_have_a_file_of_their_own(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, config_for())
    log.log_evaluation(0, {"evaluation/success": 0.25})
    log.log(1, step_metrics(0.5))
    log.close()
    assert [line["step"] for line in read_metrics(tmp_path)] == [1]
    assert [(line["step"], line["evaluation/success"]) for line in read_evaluations(tmp_path)] == [(0, 0.25)]
    assert curve(tmp_path, "evaluation/success") == [(0, 0.25)]


def test_every_kind_of_number(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, config_for())
    log.log(
        1,
        {
            "nan": math.nan,
            "infinite": np.inf,
            "float32": np.float32(0.5),
            "count": np.int64(3),
            "flag": True,
            "word": "token-mean",
            "array": np.array([1.0, np.nan]),
            "nested": {"histogram": [np.int64(1), 2.5]},
        },
    )
    log.close()
    text = (tmp_path / "metrics.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text
    line = json.loads(text)
    assert line["nan"] is line["infinite"] is None
    assert (line["float32"], line["count"], line["flag"], line["word"]) == (0.5, 3, True, "token-mean")
    assert line["array"] == [1.0, None] and line["nested"] == {"histogram": [1, 2.5]}
    assert curve(tmp_path, "float32") == [(1, 0.5)] and curve(tmp_path, "count") == [(1, 3.0)]


def test_a_resume_writes_the_lost_steps_anew(tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, config_for())
    log.log_evaluation(0, {"evaluation/success": 0.2})
    for step in (1, 2, 3):
        log.log(step, step_metrics(0.1))
    log.log_evaluation(3, {"evaluation/success": 0.3})
    log.close()
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "step", "st')  # the crash

    log = MetricsLog(tmp_path, config_for())
    log.resume_at(2)
    assert [line["step"] for line in read_metrics(tmp_path)] == [1, 2]
    log.log(3, step_metrics(0.9))
    log.log_evaluation(3, {"evaluation/success": 0.8})
    log.close()
    assert [(line["step"], line["rollout/success"]) for line in read_metrics(tmp_path)] == [
        (1, 0.1),
        (2, 0.1),
        (3, 0.9),
    ]
    assert [(line["step"], line["evaluation/success"]) for line in read_evaluations(tmp_path)] == [(0, 0.2), (3, 0.8)]
    assert curve(tmp_path, "rollout/success") == [(1, 0.1), (2, 0.1), (3, 0.9)]


@pytest.mark.parametrize("mode", ["auto", "off"])
def test_no_wandb_without_a_key(mode: str, tmp_path: Path) -> None:
    log = MetricsLog(tmp_path, config_for(None, f"logging.wandb={mode}"))
    log.log(1, step_metrics(0.5))
    log.close()
    assert not (tmp_path / "wandb").exists()


def test_wandb_asked_for_without_a_key_is_offline_and_goes_on_after_a_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def asked(*_: object) -> str:
        raise AssertionError("it asked")

    monkeypatch.setattr("builtins.input", asked)
    config = config_for(None, "logging.wandb=on")
    for step in (1, 2):
        log = MetricsLog(tmp_path, config)
        log.log(step, step_metrics(0.5))
        log.close()
    runs = list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(runs) == 2 and all(run.stat().st_size > 0 for run in runs)
    assert len({run.stem for run in runs}) == 1, "one curve"


def test_an_unreachable_wandb_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("agentrl.report.wandb_run.LOGIN_SECONDS", 2)
    warnings: list[str] = []
    log = MetricsLog(tmp_path, config_for(), warnings.append)
    log.log(1, step_metrics(0.5))
    log.close()
    assert len(warnings) == 1 and "not reached" in warnings[0] and "0000" not in warnings[0]
    assert list((tmp_path / "wandb").glob("offline-run-*/run-*.wandb"))
    assert len(read_metrics(tmp_path)) == 1


def test_where_a_key_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not has_key()
    (tmp_path / "netrc").write_text("machine api.wandb.ai login user password secret\n")
    (tmp_path / "netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    assert has_key()
    monkeypatch.setenv("WANDB_BASE_URL", "https://wandb.example.org")
    assert not has_key(), "a key for another server"
    monkeypatch.setenv("WANDB_API_KEY", "k")
    assert has_key()
