"""The console: what runs, a line of the few numbers that matter per step, progress and the time left."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from agentrl.config.schema import RunConfig

COLUMNS = (
    ("success", "rollout/success", "{:.0%}"),
    ("score", "rollout/score", "{:.2f}"),
    ("turns", "rollout/episode_length", "{:.1f}"),
    ("valid", "rollout/valid_action_rate", "{:.0%}"),
    ("groups with signal", "advantage/zero_signal_group_share", "{:.0%}"),
    ("kl", "actor/kl", "{:.4f}"),
    ("entropy", "actor/entropy", "{:.3f}"),
    ("clip", "actor/clip_fraction", "{:.1%}"),
    ("s", "seconds/step", "{:.1f}"),
)


class Console:
    """Rich on a terminal, plain lines elsewhere (logs, `ray job logs`)."""

    def __init__(self, config: RunConfig, folder: Path) -> None:
        self.config = config
        self.folder = folder
        self._rich = RichConsole(highlight=False)
        self._began = time.monotonic()
        self._first_step = 0
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def start(self) -> None:
        config = self.config
        other = "gpu" if config.scale == "cpu" else "cpu"
        table = Table.grid(padding=(0, 2))
        for name, value in (
            ("recipe", f"{config.recipe}  (advantage {config.advantage.name})"),
            ("scale", f"{config.scale}  (scale={other} picks the other)"),
            ("model", config.model.path),
            ("environment", f"{config.environment.name}  {_options(config.environment.options)}"),
            ("per step", f"{config.trainer.groups_per_step} tasks x {config.trainer.group_size} trajectories"),
            ("run directory", str(self.folder)),
        ):
            table.add_row(f"[bold]{name}[/]", value)
        self._rich.print(table)
        if self._rich.is_terminal:
            self._progress = Progress(
                TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"), console=self._rich,
            )  # fmt: skip
            self._task = self._progress.add_task("training", total=config.trainer.total_training_steps, left="")
            self._progress.start()
        self.say("starting Ray, the engines and the environments ...")

    def say(self, text: str) -> None:
        self._rich.print(text)

    def warn(self, text: str) -> None:
        self._rich.print(f"[yellow]{text}[/]" if self._rich.is_terminal else f"warning: {text}")

    def resumed(self, step: int) -> None:
        self._first_step = step
        self.say(f"resumed after step {step}")

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        if not self._first_step and step == 1:
            self._began = time.monotonic() - metrics.get("seconds/step", 0.0)
        shown = []
        for name, key, form in COLUMNS:
            if key in metrics:
                value = 1 - metrics[key] if key == "advantage/zero_signal_group_share" else metrics[key]
                shown.append(f"{name} {form.format(value)}")
        total = self.config.trainer.total_training_steps
        left = self._left(step, metrics)
        self.say(f"step {step}/{total}  " + "  ".join(shown) + ("" if self._progress else f"  {left}"))
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=step, left=left)

    def _left(self, step: int, metrics: dict[str, Any]) -> str:
        """Time left: by the steps that remain or the minutes that are allowed, whichever ends first."""
        done = max(1, step - self._first_step)
        each = (time.monotonic() - self._began) / done
        seconds = each * (self.config.trainer.total_training_steps - step)
        limit = self.config.trainer.max_minutes
        if limit is not None:
            used = float(metrics.get("time/train_seconds", 0.0))
            pace = each / max(used / max(1, step), 1e-9)  # wall time per second of training
            seconds = min(seconds, max(0.0, 60 * limit - used) * max(1.0, pace))
        return f"about {seconds / 60:.0f} min left" if seconds >= 90 else f"about {seconds:.0f} s left"

    def evaluation(self, step: int, metrics: dict[str, Any]) -> None:
        tasks = self.config.evaluation.tasks
        lost = f", {metrics['evaluation/lost']:.0f} episodes lost" if metrics.get("evaluation/lost") else ""
        self.say(
            f"evaluation after step {step}: success {metrics.get('evaluation/success', 0):.1%}, "
            f"score {metrics.get('evaluation/score', 0):.3f} on {tasks} held-out tasks{lost}"
        )

    def finish(self, lines: list[str]) -> None:
        if self._progress is not None:
            self._progress.stop()
        for line in lines:
            self._rich.print(line, soft_wrap=True)


def _options(options: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())
