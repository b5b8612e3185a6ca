"""Where the numbers go: metrics.jsonl and TensorBoard always, Weights & Biases when asked or when a key is there."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

from agentrl.config.schema import RunConfig
from agentrl.report.run_directory import write_text


class MetricsLog:
    """One JSON object per training step, and one per evaluation (`"kind": "step" | "evaluation"`), flushed at once.

    Numbers go to TensorBoard too; lists (group sizes, histograms) only to the JSON file.
    """

    def __init__(self, folder: Path, config: RunConfig) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.path = folder / "metrics.jsonl"
        self._events = EventFileWriter(str(folder / "tensorboard"))
        self._wandb = _start_wandb(folder, config)
        self._file = self.path.open("a", encoding="utf-8")

    def resume_at(self, step: int) -> None:
        """Drop what was logged after `step`: a resumed run writes these steps anew."""
        kept = [line for line in read_metrics(self.path) if line["step"] <= step]
        self._file.close()
        write_text(self.path, "".join(json.dumps(line) + "\n" for line in kept))
        self._file = self.path.open("a", encoding="utf-8")

    def log(self, step: int, metrics: dict[str, Any]) -> None:
        self._write("step", step, metrics)

    def log_evaluation(self, step: int, metrics: dict[str, Any]) -> None:
        self._write("evaluation", step, metrics)

    def _write(self, kind: str, step: int, metrics: dict[str, Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._file.write(json.dumps({"kind": kind, "step": step, **{k: _plain(v) for k, v in metrics.items()}}) + "\n")
        self._file.flush()
        numbers = {k: float(v) for k, v in metrics.items() if isinstance(v, int | float)}
        values = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
        self._events.add_event(Event(step=step, summary=Summary(value=values)))
        self._events.flush()
        if self._wandb is not None:
            self._wandb.log(numbers | {"step": step})

    def close(self) -> None:
        self._file.close()
        self._events.close()
        if self._wandb is not None:
            self._wandb.finish()


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None  # JSON has no NaN
    return value.item() if hasattr(value, "item") else value


def _start_wandb(folder: Path, config: RunConfig) -> Any:
    """A wandb run or None. Without a key it stays offline and never asks."""
    wanted = config.logging.wandb
    key = bool(os.environ.get("WANDB_API_KEY")) or _netrc_has_wandb()
    if wanted == "off" or (wanted == "auto" and not key):
        return None
    import wandb

    return wandb.init(
        project=config.logging.project,
        name=folder.name,
        dir=str(folder),
        mode="online" if key and os.environ.get("WANDB_MODE", "online") == "online" else "offline",
        config=config.model_dump(mode="json"),
    )


def _netrc_has_wandb() -> bool:
    try:
        return "api.wandb.ai" in Path("~/.netrc").expanduser().read_text()
    except OSError:
        return False


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl; a last line that was cut by a crash is left out."""
    lines = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines
