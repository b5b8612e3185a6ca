"""The end of a run: summary.json, the learning curve, how it went, where everything lies, what to try next."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentrl.config.recipes import recipe_names
from agentrl.report.curve import plot_learning_curve
from agentrl.report.files import write_json
from agentrl.report.run_directory import python_command

if TYPE_CHECKING:
    from agentrl.driver.run_state import Run


def finish(run: Run) -> dict[str, Any]:
    """Write summary.json and learning_curve.png, say how it went. Returns the summary."""
    folder = run.directory.path
    summary = summarise(run)
    write_json(folder / "summary.json", summary)
    try:
        curve = plot_learning_curve(folder, f"{summary['recipe']}, seed {summary['seed']}")
    except Exception as error:  # a picture is not worth the exit status of a trained policy
        run.console.warn(f"no learning curve could be drawn: {error}")
        curve = None
    run.console.finish(closing_words(summary, folder, curve))
    return summary


def summarise(run: Run) -> dict[str, Any]:
    """What summary.json holds. Success is 0..1, times are in seconds, memory in bytes (see MemorySampler)."""
    config = run.config
    return {
        "recipe": config.recipe,
        "environment": config.environment.name,
        "scale": config.scale,
        "seed": config.seed,
        "steps": run.step,
        "total_training_steps": config.trainer.total_training_steps,
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


def closing_words(summary: dict[str, Any], folder: Path, curve: Path | None) -> list[str]:
    """The last lines on the console, from summary.json's content."""
    python = python_command()
    resume = f"{python} -m agentrl.main resume={folder}"
    if summary["stopped_by"]:
        return [
            "",
            f"stopped by {summary['stopped_by']} after step {summary['steps']}; everything is saved. To go on:",
            f"  {resume}",
        ]
    lines = ["", *_outcome(summary)]
    lines.append("  ".join(f"{name.replace('_', ' ')} {summary[name]}" for name in
                           ("dropped_trajectories", "retried_trajectories", "dropped_groups")))  # fmt: skip
    first = summary["first_step_seconds"]
    lines.append(
        f"peak memory {summary['peak_memory_bytes'] / 2**30:.1f} GiB"
        + (f", first training step done {first:.0f} s after the start" if first is not None else "")
    )
    model = folder / "checkpoints" / f"step_{summary['steps']}" / "actor" / "huggingface"
    places = [
        ("learning curve", curve),
        ("metrics", f"{folder / 'metrics.jsonl'}   (or: tensorboard --logdir {folder / 'tensorboard'})"),
        ("episodes", folder / "episodes"),
        ("model", model),
        ("next", f"{python} -m agentrl.main {_next(summary)}"),
    ]
    return lines + [f"{name:<16}{place}" for name, place in places if place is not None]


def failure_words(folder: Path, saved_step: int | None) -> list[str]:
    """What to say when a run ends with an error: what is safe, and how to go on."""
    if saved_step is None:
        return ["", f"the run failed before its first checkpoint; its logs are in {folder}"]
    return [
        "",
        f"the run failed; everything up to step {saved_step} is saved. To go on, once the reason is mended:",
        f"  {python_command()} -m agentrl.main resume={folder}",
    ]


def _outcome(summary: dict[str, Any]) -> list[str]:
    before, after = summary["success_before"], summary["success_after"]
    if before is None or after is None:
        return []
    gain, minutes = 100 * (after - before), summary["train_seconds"] / 60
    return [
        f"held-out success {before:.1%} -> {after:.1%} ({gain:+.1f} points) on the same {summary['eval_tasks']} tasks, "
        f"{summary['steps']} steps, {minutes:.1f} minutes of training"
    ]


def _next(summary: dict[str, Any]) -> str:
    """Words for the next run: another method on the same environment and seed, or else another seed."""
    names = [name for name in recipe_names() if name.endswith(f"_{summary['environment']}")]
    if summary["recipe"] in names and len(names) > 1:
        other = names[(names.index(summary["recipe"]) + 1) % len(names)]
        return f"+recipe={other} seed={summary['seed']}   (another method, to compare)"
    recipe = summary["recipe"]
    words = f"+recipe=[{','.join(recipe.split('+'))}]" if "+" in recipe else f"+recipe={recipe}"
    return f"{words} seed={summary['seed'] + 1}   (another seed)"
