"""What a replay says: the table on the console, and steps.csv, replay.json and replay.png in a folder."""

from __future__ import annotations

import csv
import io
import math
import time
from pathlib import Path
from typing import Any

from agentrl.config.errors import ConfigError
from agentrl.report.credit import Comparison, by_turn, most_moved, totals
from agentrl.report.credit_plot import plot_credit
from agentrl.report.files import write_json, write_text

Named = tuple[str, dict[str, Any]]  # a method and its settings
# title, width, key in the numbers, format
COLUMNS = (
    ("rows", 8, "rows", "{:,.0f}"),
    ("signal", 8, "signal_old", "{:.0%}"),
    ("-> new", 8, "signal_new", "{:.0%}"),
    ("mean|A|", 8, "size_old", "{:.3f}"),
    ("-> new", 8, "size_new", "{:.3f}"),
    ("within", 8, "within_old", "{:.0%}"),
    ("-> new", 8, "within_new", "{:.0%}"),
    ("rank", 8, "rank_correlation", "{:.3f}"),
    ("flips", 8, "sign_flips", "{:.1%}"),
)
EXPLAINED = (
    "signal: turns with an advantage; mean|A|: its size; within: share of its variance between the turns of a "
    "trajectory\nrank: Spearman's correlation of old and new over the turns; flips: turns whose advantage changes its sign"
)
EXCERPT = 60  # characters of a state


def write_report(
    out: Path,
    comparisons: list[Comparison],
    signals: list[dict[str, Any]],
    tasks: dict[int, list[tuple[str, int]]],
    *,
    old: Named,
    new: Named,
    examples: int,
    started: float,
) -> Path:
    """signals: what the new method saw at each step; tasks: step -> (task, member) of each trajectory. Returns `out`."""
    whole = totals(comparisons)
    moved = most_moved(comparisons, examples)
    for item in moved:
        item["task"], item["member"] = tasks[item["step"]][item["trajectory"]]
    names = _names(old, new)
    _print(comparisons, whole, moved, names, old, new)
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / "steps.csv", _csv(comparisons))
        content = {
            "old": {"method": old[0], "settings": old[1]},
            "new": {"method": new[0], "settings": new[1]},
            "totals": whole,
            "steps": [
                {"step": c.step, **c.numbers, "signal": signal} for c, signal in zip(comparisons, signals, strict=True)
            ],
            "by_turn": by_turn(comparisons),
            "most_moved": moved,
        }
        write_json(out / "replay.json", content)
        plot_credit(out / "replay.png", comparisons, *names)
    except OSError as error:
        raise ConfigError(f"out={out}: cannot be written ({error.strerror or error}); name another folder.") from None
    seconds = time.perf_counter() - started
    print(
        f"\n{whole['trajectories']:,.0f} trajectories, {whole['rows']:,.0f} turns in {seconds:.1f} s; "
        f"steps.csv, replay.json and replay.png are in {out}"
    )
    return out


def _names(old: Named, new: Named) -> tuple[str, str]:
    """For the picture: two runs of one method are told apart by the settings that differ."""
    if old[0] != new[0]:
        return old[0], new[0]
    changed = {k: v for k, v in new[1].items() if old[1].get(k) != v}
    return f"{old[0]} as run", f"{new[0]} " + (", ".join(f"{k}={v}" for k, v in changed.items()) or "again")


def _print(
    comparisons: list[Comparison],
    whole: dict[str, float],
    moved: list[dict[str, Any]],
    names: tuple[str, str],
    old: Named,
    new: Named,
) -> None:
    print(f"old: {old[0]} {_settings(old[1])}\nnew: {new[0]} {_settings(new[1])}\n{EXPLAINED}\n")
    print(f"{'step':>6}" + "".join(f"{title:>{width}}" for title, width, *_ in COLUMNS))
    for label, numbers in [*((str(c.step), c.numbers) for c in comparisons), ("all", whole)]:
        print(f"{label:>6}" + "".join(f"{_cell(numbers[key], form):>{width}}" for _, width, key, form in COLUMNS))
    if max(c.numbers["largest_change"] for c in comparisons) < 1e-9:
        print("\nold and new are equal in every turn")
        return
    if all(c.numbers["signal_new"] == 0 for c in comparisons):
        print(f"\nwarning: {names[1]} gives no turn of any step an advantage")
    for item in moved:
        outcome = "success" if item["success"] else "failure"
        print(
            f"\nstep {item['step']}  {item['task']}, member {item['member']} ({outcome}), turn {item['turn'] + 1}: "
            f"{item['old']:+.3f} -> {item['new']:+.3f}\n"
            f"    in   {_excerpt(item['state'])}\n    did  {_excerpt(item['action'])}"
        )


def _settings(settings: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in settings.items())


def _cell(value: float, form: str) -> str:
    return form.format(value) if math.isfinite(value) else "-"


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= EXCERPT else line[: EXCERPT - 3] + "..."


def _csv(comparisons: list[Comparison]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["step", *comparisons[0].numbers])
    for c in comparisons:
        writer.writerow([c.step, *("" if not math.isfinite(v) else repr(float(v)) for v in c.numbers.values())])
    return file.getvalue()
