"""The end of a run: summary.json, the learning curve as a picture, and what to do next."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrl.report.metrics_log import read_metrics
from agentrl.report.run_directory import python_command, write_json

if TYPE_CHECKING:
    from agentrl.driver.run_state import Run


def finish(run: Run) -> dict[str, Any]:
    """Write summary.json and learning_curve.png, say how it went. Returns the summary."""
    config, folder = run.config, run.directory.path
    summary = {
        "recipe": config.recipe,
        "seed": config.seed,
        "steps": run.step,
        "eval_tasks": config.evaluation.tasks,
        "eval_temperature": config.evaluation.temperature,
        "success_before": run.success_before,
        "success_after": run.success_after,
        "evaluated_at_step": run.last_evaluation_step,
        "train_seconds": run.train_seconds,
        "wall_seconds": time.time() - run.started,
        "first_step_seconds": run.first_step_seconds,
        "peak_memory_bytes": run.memory.peak,
        "dropped_trajectories": run.counts["dropped_trajectories"],
        "retried_trajectories": run.counts["retried_trajectories"],
        "dropped_groups": run.counts["dropped_groups"],
        "resumed_from": run.resumed_from,
        "stopped_by": run.stop.reason,
        "environment_counters": dict(run.episodes.pool.counters),
        "router_counters": dict(run.router.counters),
        "data_fingerprint": run.data_fingerprint,
    }
    write_json(folder / "summary.json", summary)
    curve = plot_learning_curve(read_metrics(folder / "metrics.jsonl"), folder / "learning_curve.png", config.recipe)
    run.console.finish(_lines(run, summary, curve))
    return summary


def _lines(run: Run, summary: dict[str, Any], curve: Path | None) -> list[str]:
    folder, config, python = run.directory.path, run.config, python_command()
    lines = [""]
    if run.stop:
        lines += [
            f"stopped by {run.stop.reason} after step {run.step}; everything is saved. To go on:",
            f"  {python} -m agentrl.main resume={folder}",
        ]
        return lines
    before, after = run.success_before, run.success_after
    if before is not None and after is not None:
        lines.append(
            f"held-out success {before:.1%} -> {after:.1%} ({100 * (after - before):+.1f} points) on the same "
            f"{config.evaluation.tasks} tasks, {run.step} steps, {run.train_seconds / 60:.1f} minutes of training"
        )
    losses = ("dropped_trajectories", "retried_trajectories", "dropped_groups")
    lines.append("  ".join(f"{name.replace('_', ' ')} {summary[name]}" for name in losses))
    lines.append(f"peak memory {summary['peak_memory_bytes'] / 2**30:.1f} GiB, first step after "
                 f"{summary['first_step_seconds'] or 0:.0f} s")  # fmt: skip
    lines += [
        f"learning curve   {curve}" if curve else "",
        f"metrics          {folder / 'metrics.jsonl'}   (or: tensorboard --logdir {folder / 'tensorboard'})",
        f"episodes         {folder / 'episodes'}",
        f"model            {folder / 'checkpoints' / f'step_{run.step}' / 'actor' / 'huggingface'}",
        f"next, to compare {python} -m agentrl.main +recipe={_other(config.recipe)} seed={config.seed}",
    ]
    return [line for line in lines if line or line == lines[0]]


def _other(recipe: str) -> str:
    """Another method on the same environment."""
    method, _, environment = recipe.partition("_")
    return f"{'gigpo' if method != 'gigpo' else 'ptgpo'}_{environment}" if environment else "gigpo_webshop"


def plot_learning_curve(metrics: list[dict[str, Any]], path: Path, title: str) -> Path | None:
    """Training success per step and held-out success per evaluation, 0..1, as a PNG. None if there is nothing yet."""
    steps = [(m["step"], m["rollout/success"]) for m in metrics if m["kind"] == "step" and "rollout/success" in m]
    held_out = [(m["step"], m["evaluation/success"]) for m in metrics if m.get("evaluation/success") is not None]
    if not steps and not held_out:
        return None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=120)
    if steps:
        axes.plot(*zip(*steps, strict=True), color="tab:blue", alpha=0.45, label="training tasks")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), color="tab:orange", marker="o", label="held-out tasks")
    axes.set(xlabel="training step", ylabel="success", ylim=(0, 1), title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
    return path
