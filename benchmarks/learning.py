"""Trains recipes with several seeds, one run after another, and reports held-out success before and after.

    python benchmarks/learning.py                                            # PTGPO, GRPO and GiGPO, seeds 0 1 2
    python benchmarks/learning.py --recipes ptgpo_webshop --seeds 0 -- trainer.total_training_steps=20

Runs lie in runs/learning/; a finished one is not made again. Prints a table and writes learning.png there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from agentrl.report.metrics_log import read_evaluations

COLORS = ("tab:orange", "tab:blue", "tab:green", "tab:red", "tab:purple")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", nargs="+", default=["ptgpo_webshop", "grpo_webshop", "gigpo_webshop"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/learning"))
    parser.add_argument("words", nargs="*", help="more words for every run, after --")
    arguments = parser.parse_args()
    done = []
    for seed in arguments.seeds:
        for recipe in arguments.recipes:
            folder = arguments.folder / f"{recipe}-{seed}"
            if not (folder / "summary.json").is_file():
                command = [sys.executable, "-m", "agentrl.main", f"+recipe={recipe}", f"seed={seed}"]
                subprocess.run([*command, f"trainer.run_dir={folder}", *arguments.words], check=True)
            done.append((recipe, seed, folder))
            print(table(done), flush=True)
    plot(done, arguments.folder / "learning.png")


def table(runs: list[tuple[str, int, Path]]) -> str:
    lines = [
        "| recipe | seed | held-out success before | after | points | steps | training minutes |",
        "|---|---|---|---|---|---|---|",
    ]
    for recipe, seed, folder in runs:
        s = json.loads((folder / "summary.json").read_text())
        before, after = s["success_before"], s["success_after"]
        lines.append(
            f"| {recipe} | {seed} | {before:.1%} | {after:.1%} | {100 * (after - before):+.1f} | {s['steps']} "
            f"| {s['train_seconds'] / 60:.1f} |"
        )
    return "\n".join(lines)


def plot(runs: list[tuple[str, int, Path]], path: Path) -> None:
    """Held-out success against the training step, one line per run, one colour per recipe."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=120)
    color = {recipe: COLORS[i % len(COLORS)] for i, recipe in enumerate(dict.fromkeys(recipe for recipe, *_ in runs))}
    named: set[str] = set()
    for recipe, _, folder in runs:
        points = [(m["step"], m["evaluation/success"]) for m in read_evaluations(folder)]
        axes.plot(*zip(*points, strict=True), color=color[recipe], marker="o", markersize=3, alpha=0.8,
                  label=None if recipe in named else recipe)  # fmt: skip
        named.add(recipe)
    axes.set(xlabel="training step", ylabel="success on held-out tasks", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)


if __name__ == "__main__":
    main()
