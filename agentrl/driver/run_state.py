"""`Run`: the parts of a run and its state; what is recorded, counted, saved and restored."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentrl.advantage import settings_fields
from agentrl.config.schema import RunConfig
from agentrl.driver.checkpoint import save_checkpoint
from agentrl.driver.collect import Collector
from agentrl.driver.episodes import EpisodeFactory
from agentrl.driver.evaluate import Evaluation
from agentrl.driver.signals import StopRequest
from agentrl.driver.tasks import TaskCursor
from agentrl.engine.router import RolloutRouter
from agentrl.engine.training_group import TrainingGroup
from agentrl.report.console import Console
from agentrl.report.memory import MemorySampler
from agentrl.report.metrics_log import MetricsLog
from agentrl.report.run_directory import RunDirectory


@dataclass
class Run:
    """Built by `agentrl.driver.run`. `step` is the number of finished training steps."""

    config: RunConfig
    directory: RunDirectory
    log: MetricsLog
    console: Console
    memory: MemorySampler
    stop: StopRequest
    actor: TrainingGroup
    router: RolloutRouter
    episodes: EpisodeFactory
    collector: Collector
    cursor: TaskCursor
    held_out: list[str]
    data_fingerprint: str
    started: float  # time.time() of the process's start
    step: int = 0
    first_step_seconds: float | None = None
    train_seconds: float = 0.0
    success_before: float | None = None
    success_after: float | None = None
    last_evaluation_step: int = -1
    counts: Counter[str] = field(default_factory=Counter)
    resumed_from: int | None = None
    _clock: float = field(default_factory=time.perf_counter)

    @property
    def method(self) -> str:
        return self.config.advantage.name

    @property
    def method_settings(self) -> dict[str, Any]:
        """As configured, and how far the run is where the method asks for it."""
        progress = {"step": self.step, "total_steps": self.config.trainer.total_training_steps}
        known = settings_fields(self.method)
        return self.config.method_settings | {n: v for n, v in progress.items() if n in known}

    def finished(self) -> bool:
        limit = self.config.trainer.max_minutes
        out_of_time = limit is not None and self.train_seconds >= 60 * limit
        return self.step >= self.config.trainer.total_training_steps or out_of_time or bool(self.stop)

    def due(self, every: int) -> bool:
        return bool(every) and self.step % every == 0

    def count(self, counts: dict[str, int]) -> None:
        self.counts.update(counts)

    def record(self, metrics: dict[str, Any], warnings: list[str]) -> None:
        """Log the step in hand: metrics of the step, the running totals, memory, speed."""
        stages = ("rollout", "values", "advantage", "update", "sync")
        self.train_seconds += sum(metrics.get(f"seconds/{stage}", 0.0) for stage in stages)
        if self.first_step_seconds is None:
            self.first_step_seconds = time.time() - self.started
        metrics |= {f"count/total_{name}": float(value) for name, value in sorted(self.counts.items())}
        metrics |= {f"environment/{name}": float(value) for name, value in self.episodes.pool.counters.items()}
        metrics |= {f"router/{name}": float(value) for name, value in self.router.counters.items()}
        metrics |= {"memory/pss_bytes": float(self.memory.current()), "memory/peak_pss_bytes": float(self.memory.peak)}
        metrics["time/train_seconds"] = self.train_seconds
        for warning in warnings:
            self.console.warn(f"step {self.step}: {warning}")
        if metrics.get("advantage/zero_signal_group_share") == 1.0:
            self.console.warn(f"step {self.step}: no group carries a signal: all advantages are zero")
        self.log.log(self.step, metrics)
        self.console.step(self.step, metrics)

    def record_evaluation(self, evaluation: Evaluation, seconds: float) -> None:
        if self.step == 0:
            self.success_before = evaluation.success
        self.success_after = evaluation.success
        self.last_evaluation_step = self.step
        self.log.log_evaluation(self.step, evaluation.metrics | {"seconds/evaluation": seconds})
        self.console.evaluation(self.step, evaluation.metrics)

    def state(self) -> dict[str, Any]:
        """What a checkpoint stores beside the actor."""
        return {
            "step": self.step,
            "cursor": self.cursor.position,
            "recipe": self.config.recipe,
            "seed": self.config.seed,
            "data_fingerprint": self.data_fingerprint,
            "counts": dict(self.counts),
            "train_seconds": self.train_seconds,
            "first_step_seconds": self.first_step_seconds,
            "success_before": self.success_before,
            "success_after": self.success_after,
            "last_evaluation_step": self.last_evaluation_step,
        }

    def restore(self, state: dict[str, Any]) -> None:
        self.step = self.resumed_from = int(state["step"])
        self.cursor.position = int(state["cursor"])
        self.counts = Counter(state["counts"])
        for name in ("train_seconds", "first_step_seconds", "success_before", "success_after", "last_evaluation_step"):
            setattr(self, name, state[name])

    def save(self) -> Path | None:
        """A checkpoint of the step in hand, unless it lies there already."""
        folder = self.directory.path / "checkpoints" / f"step_{self.step}"
        if (folder / "manifest.json").is_file():
            return None
        return save_checkpoint(
            self.directory.path, self.step, self.state(), self.actor.save, self.config.trainer.keep_checkpoints
        )
