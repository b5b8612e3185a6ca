"""The learning curve as a picture."""

from __future__ import annotations

from pathlib import Path

from agentrl.report.metrics_log import read_evaluations, read_metrics


def plot_learning_curve(folder: Path, title: str) -> Path | None:
    """learning_curve.png of a run directory: success on the training tasks of each step and on the held-out tasks.

    Returns its path; None if nothing has been measured yet.
    """
    steps = [(line["step"], line["rollout/success"]) for line in read_metrics(folder) if _has(line, "rollout/success")]
    held_out = [
        (line["step"], line["evaluation/success"])
        for line in read_evaluations(folder)
        if _has(line, "evaluation/success")
    ]
    if not steps and not held_out:
        return None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=120)
    if steps:
        axes.plot(*zip(*steps, strict=True), color="tab:blue", alpha=0.45, label="training tasks of the step")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), color="tab:orange", marker="o", label="held-out tasks, always the same")
    axes.set(xlabel="training step", ylabel="success", ylim=(0, 1), title=title)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend(loc="best")
    figure.tight_layout()
    path = folder / "learning_curve.png"
    partial = folder / ".learning_curve.partial.png"
    figure.savefig(partial)
    partial.replace(path)
    pyplot.close(figure)
    return path


def _has(line: dict[str, object], key: str) -> bool:
    return line.get(key) is not None
