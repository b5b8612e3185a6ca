"""The picture of a replay: one credit against the other, credit along the trajectory, and how both differ by step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from agentrl.report.credit import Comparison, by_turn, scaled

SHOWN = 20_000  # points of the scatter; more make it slow and black


def plot_credit(path: Path, comparisons: list[Comparison], old: str, new: str) -> None:
    """Write a PNG to `path`, atomically. old, new: names of the two methods."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, 2, figsize=(11, 8), dpi=110)
    _scatter(axes[0, 0], comparisons, old, new)
    _along(axes[0, 1], comparisons, old, new)
    _lines(axes[1, 0], comparisons, ("rank_correlation", "sign_flips"), ("rank correlation", "sign flips"))
    _lines(
        axes[1, 1],
        comparisons,
        ("signal_old", "signal_new", "within_old", "within_new"),
        (f"rows with signal, {old}", f"rows with signal, {new}", f"within trajectories, {old}", f"same, {new}"),
    )
    figure.suptitle(f"{old} against {new}: the same turns")
    figure.tight_layout()
    partial = path.with_name(f".{path.stem}.partial.png")
    figure.savefig(partial)
    partial.replace(path)
    pyplot.close(figure)


def _scatter(axes: Any, comparisons: list[Comparison], old: str, new: str) -> None:
    a, b = (np.concatenate([scaled(getattr(c, side)) for c in comparisons]) for side in ("old", "new"))
    success = np.concatenate([c.table.success for c in comparisons])
    every = max(1, len(a) // SHOWN)
    for wanted, colour, label in ((True, "tab:green", "successes"), (False, "tab:red", "failures")):
        chosen = success[::every] == wanted
        axes.scatter(a[::every][chosen], b[::every][chosen], s=5, alpha=0.3, color=colour, label=label, linewidths=0)
    axes.axhline(0, color="grey", linewidth=0.6)
    axes.axvline(0, color="grey", linewidth=0.6)
    axes.set(
        xlabel=f"{old}, in its own standard deviations", ylabel=f"{new}, in its own", title="advantage of each turn"
    )
    axes.legend(markerscale=3)


def _along(axes: Any, comparisons: list[Comparison], old: str, new: str) -> None:
    means = by_turn(comparisons)
    for kind, colour in (("success", "tab:green"), ("failure", "tab:red")):
        for side, name, style in (("old", old, "--"), ("new", new, "-")):
            values = [np.nan if v is None else v for v in means[f"{side}_{kind}"]]
            plural = "successes" if kind == "success" else "failures"
            axes.plot(range(1, len(values) + 1), values, style, color=colour, label=f"{plural}, {name}")
    axes.axhline(0, color="grey", linewidth=0.6)
    axes.set(xlabel="turn", ylabel="mean advantage", title="credit along the trajectory")
    axes.legend()


def _lines(axes: Any, comparisons: list[Comparison], keys: tuple[str, ...], labels: tuple[str, ...]) -> None:
    from matplotlib.ticker import MaxNLocator

    steps = [c.step for c in comparisons]
    for key, label in zip(keys, labels, strict=True):
        axes.plot(steps, [c.numbers[key] for c in comparisons], marker="o", markersize=3, label=label)
    axes.set(xlabel="training step", ylim=(min(-0.05, axes.get_ylim()[0]), 1.05))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.3)
    axes.legend()
