"""Where the numbers go: JSON Lines and TensorBoard always, Weights & Biases when asked or when a key is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from numbers import Real
from pathlib import Path
from typing import Any

from agentrl.config.schema import RunConfig
from agentrl.report.files import plain, read_json_lines, write_text
from agentrl.report.wandb_run import start_wandb

STEPS, EVALUATIONS = "metrics.jsonl", "evaluations.jsonl"


class MetricsLog:
    """metrics.jsonl: one object per training step; evaluations.jsonl: one per evaluation; each flushed at once.

    Numbers go to TensorBoard too; lists (group sizes, histograms) only to the files. NaN and infinities are null.
    `warn` gets one sentence when Weights & Biases cannot be reached; the run goes on without it.
    """

    def __init__(self, folder: Path, config: RunConfig, warn: Callable[[str], None] = print) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.folder = folder
        self._events = EventFileWriter(str(folder / "tensorboard"))
        self._wandb = start_wandb(folder, config, warn)
        self._files = {name: (folder / name).open("a", encoding="utf-8") for name in (STEPS, EVALUATIONS)}

    def resume_at(self, step: int) -> None:
        """Drop what was logged after `step`: a resumed run writes these steps anew."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        for name, file in self._files.items():
            file.close()
            kept = [line for line in read_json_lines(self.folder / name) if line["step"] <= step]
            write_text(self.folder / name, "".join(json.dumps(line) + "\n" for line in kept))
            self._files[name] = (self.folder / name).open("a", encoding="utf-8")
        # TensorBoard leaves out what an earlier event file says about steps from here on
        self._events.add_event(Event(step=step + 1, session_log=SessionLog(status=SessionLog.START)))

    def log(self, step: int, metrics: dict[str, Any]) -> None:
        self._write(STEPS, "step", step, metrics)

    def log_evaluation(self, step: int, metrics: dict[str, Any]) -> None:
        self._write(EVALUATIONS, "evaluation", step, metrics)

    def _write(self, name: str, kind: str, step: int, metrics: dict[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._files[name].write(json.dumps({"kind": kind, "step": step, **plain(metrics)}, allow_nan=False) + "\n")
        self._files[name].flush()
        numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, Real)}
        values = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self._events.add_event(Event(step=step, summary=Summary(value=values)))
        self._events.flush()
        if self._wandb is not None:
            self._wandb.log(numbers | {"step": step})

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._events.close()
        if self._wandb is not None:
            self._wandb.finish()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The training steps of a run directory, one object each."""
    return read_json_lines(folder / STEPS)


def read_evaluations(folder: Path) -> list[dict[str, Any]]:
    """The evaluations of a run directory, one object each; step 0 is the policy that training started from."""
    return read_json_lines(folder / EVALUATIONS)
