"""The console: what runs, a line of the few numbers that matter per step, progress and the time left."""

from __future__ import annotations

import atexit
import time
from pathlib import Path
from typing import Any

from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from agentrl.config.schema import RunConfig

# title, width, key in the metrics, format
COLUMNS = (
    ("success", 7, "rollout/success", "{:.0%}"),
    ("score", 6, "rollout/score", "{:.2f}"),
    ("turns", 6, "rollout/episode_length", "{:.1f}"),
    ("valid", 6, "rollout/valid_action_rate", "{:.0%}"),
    ("signal", 7, "advantage/signal", "{:.0%}"),
    ("kl", 8, "actor/kl", "{:.4f}"),
    ("entropy", 8, "actor/entropy", "{:.3f}"),
    ("clip", 6, "actor/clip_fraction", "{:.1%}"),
    ("seconds", 8, "seconds/step", "{:.1f}"),
)
EXPLAINED = "signal: share of task groups whose trajectories differ in return, and so teach something"
HEADER_EVERY = 20  # lines


class Console:
    """A progress bar and coloured lines on a terminal, plain lines elsewhere (logs, `ray job logs`)."""

    def __init__(self, config: RunConfig, folder: Path, rich: RichConsole | None = None) -> None:
        self.config = config
        self.folder = folder
        self._rich = rich or RichConsole(highlight=False)
        self._began = time.monotonic()
        self._first_step = 0
        self._rows = 0
        self._progress: Progress | None = None

    def start(self) -> None:
        config = self.config
        other = "gpu" if config.scale == "cpu" else "cpu"
        for name, value in (
            ("recipe", f"{config.recipe}  (advantage {config.advantage.name})"),
            ("scale", f"{config.scale}  (scale={other} picks the other)"),
            ("model", config.model.path),
            ("environment", f"{config.environment.name}  {_options(config.environment.options)}".rstrip()),
            ("per step", f"{config.trainer.groups_per_step} tasks x {config.trainer.group_size} trajectories"),
            ("at most", _limits(config)),
            ("run directory", str(self.folder)),
        ):
            self._line(Text.assemble((f"{name:<15}", "bold"), value))
        if self._rich.is_terminal:
            # the bar's thread shares two cores with the engines: two pictures a second will do
            self._progress = Progress(
                SpinnerColumn(), TextColumn("training"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                TextColumn("{task.fields[left]}"), console=self._rich, refresh_per_second=2,
            )  # fmt: skip
            self._progress.add_task("training", total=config.trainer.total_training_steps, left="")
            self._progress.start()
            atexit.register(self._progress.stop)  # an exception must not leave a terminal without its cursor
        self.say("starting Ray, the engines and the environments ...")

    def say(self, text: str) -> None:
        self._line(Text(text))

    def warn(self, text: str) -> None:
        self._line(Text(f"warning: {text}", style="yellow"))

    def resumed(self, step: int) -> None:
        self._first_step = step
        self._show_progress(step, "")
        self.say(f"resumed after step {step}")

    def step(self, step: int, metrics: dict[str, Any]) -> None:
        total = self.config.trainer.total_training_steps
        if step == self._first_step + 1:
            self._began = time.monotonic() - float(metrics.get("seconds/step", 0.0))
        if "advantage/zero_signal_group_share" in metrics:
            metrics = metrics | {"advantage/signal": 1 - metrics["advantage/zero_signal_group_share"]}
        width = max(6, 2 * len(str(total)) + 2)
        if self._rows % HEADER_EVERY == 0:
            if self._rows == 0:
                self.say(EXPLAINED)
            head = f"{'step':>{width}}" + "".join(f"{title:>{size + 1}}" for title, size, *_ in COLUMNS)
            self._line(Text(head, style="bold"))
        self._rows += 1
        cells = [
            f"{form.format(metrics[key]) if key in metrics else '-':>{size + 1}}" for _, size, key, form in COLUMNS
        ]
        left = self._left(step, metrics)
        self.say(f"{f'{step}/{total}':>{width}}" + "".join(cells) + ("" if self._progress else f"  {left}"))
        self._show_progress(step, left)

    def _show_progress(self, step: int, left: str) -> None:
        if self._progress is not None:
            self._progress.update(self._progress.task_ids[0], completed=step, left=left)

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
        text = (
            f"evaluation after step {step}: success {metrics.get('evaluation/success', 0):.1%}, "
            f"score {metrics.get('evaluation/score', 0):.3f} on {tasks} held-out tasks{lost}"
        )
        self._line(Text(text, style="cyan"))

    def finish(self, lines: list[str]) -> None:
        if self._progress is not None:
            self._progress.stop()
        for line in lines:
            self.say(line)

    def _line(self, text: Text) -> None:
        # never wrapped, so that a log has one line per line; never read as markup, for texts hold search[red scarf]
        self._rich.print(text, soft_wrap=True)


def _options(options: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in options.items())


def _limits(config: RunConfig) -> str:
    minutes = config.trainer.max_minutes
    return f"{config.trainer.total_training_steps} steps" + (f" or {minutes:g} minutes of training" if minutes else "")
