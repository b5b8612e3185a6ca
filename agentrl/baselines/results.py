"""What an evaluation leaves behind: a line per task as it ends, averages with standard errors per task type, a table.

OUT/episodes.jsonl     one object per task, in the order in which they ended
OUT/evaluation.json    what was evaluated, and the averages: of all tasks and of each type
OUT/transcripts/       the first tasks as text
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import numpy as np

from agentrl.baselines.agents import Played
from agentrl.config.errors import ConfigError
from agentrl.episode.records import Trajectory
from agentrl.episode.transcript import format_trajectory
from agentrl.report.files import plain, read_json_lines, write_json, write_text
from agentrl.report.run_directory import OF_A_RUN


def line_of(played: Played) -> dict[str, Any]:
    """The record of one task. Success, score, turns and ended are of the last trial; times in seconds."""
    last = played.trials[-1]
    return {
        "task": played.task,
        "task_type": last.task_type,
        "goal": last.task,
        "success": last.success,
        "score": last.score,
        "turns": len(last.turns),
        "ended": last.ended,
        "env_seed": last.env_seed,
        "prompt_tokens": played.prompt_tokens,
        "response_tokens": played.response_tokens,
        "retries": sum(trial.retries for trial in played.trials),
        "seconds": round(played.seconds, 3),
        "trials": [_trial(trial) for trial in played.trials],
        "notes": played.notes,
    }


def _trial(trajectory: Trajectory) -> dict[str, Any]:
    turns = trajectory.turns
    return {
        "success": trajectory.success,
        "score": trajectory.score,
        "reward": trajectory.total_reward,
        "turns": len(turns),
        "invalid_turns": sum(not turn.valid for turn in turns),
        "cut_turns": sum(turn.stop_reason == "length" for turn in turns),
        "ended": trajectory.ended,
        "actions": [turn.action for turn in turns],
    }


class Results:
    """The folder. Only one process at a time may have it; what lies in it already is kept and counts.

    Use it as a context. Raises ConfigError when another evaluation or a run lies there, or another process works in it.

    counters, seconds: of the earlier parts of this evaluation, as evaluation.json has them.
    """

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.folder, self.identity = folder, plain(identity)
        self.lines: dict[str, dict[str, Any]] = {}
        self.counters: dict[str, Any] = {}
        self.seconds = 0.0

    def __enter__(self) -> Results:
        self._file: TextIO | None = None
        self._made = not self.folder.exists()
        try:
            self._refuse_a_run()
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = (self.folder / ".lock").open("w")
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._check(self.folder / "episodes.jsonl")
            self.lines = {line["task"]: line for line in read_json_lines(self.folder / "episodes.jsonl")}
        except BlockingIOError:
            self._lock.close()
            raise ConfigError(
                f"out={self.folder}: another process evaluates into it; wait for it, or name another folder."
            ) from None
        except BaseException:
            self._lock.close()
            raise
        return self

    def begin(self, summary: Mapping[str, Any]) -> None:
        """From here on tasks can be added. What this is comes first: a folder that is found later must speak for itself."""
        path = self.folder / "episodes.jsonl"
        try:
            self.write(summary)
            # a line that a crash cut would spoil the one behind it
            write_text(path, "".join(_json_line(line) for line in self.lines.values()))
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise self._unwritable(error) from None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._file is not None:
            self._file.close()
        elif self._made:  # refused before anything was played
            (self.folder / ".lock").unlink(missing_ok=True)
            with suppress(OSError):
                self.folder.rmdir()
        self._lock.close()

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(f"out={self.folder}: cannot be written ({error.strerror or error}); name another folder.")

    def add(self, played: Played, *, transcript: bool = False) -> dict[str, Any]:
        """Write one task down, for good; with ``transcript`` as a text, too.

        The text comes first: a task whose line is there is never played again, so that a kill between the two
        would lose the text.
        """
        assert self._file is not None
        if transcript:
            self._write_transcript(played)
        line: dict[str, Any] = plain(line_of(played))
        self._file.write(_json_line(line))
        self._file.flush()
        os.fsync(self._file.fileno())
        self.lines[played.task] = line
        return line

    def write(self, summary: Mapping[str, Any]) -> Path:
        """evaluation.json, atomically."""
        path = self.folder / "evaluation.json"
        write_json(path, {"identity": self.identity, **summary})
        return path

    def _write_transcript(self, played: Played) -> None:
        path = self.folder / "transcripts" / f"{re.sub(r'[^A-Za-z0-9.-]+', '_', played.task)}.txt"
        path.parent.mkdir(exist_ok=True)
        parts = []
        for number, trial in enumerate(played.trials):
            parts.append(f"=== trial {number + 1} of {len(played.trials)}\n" if len(played.trials) > 1 else "")
            parts.append(format_trajectory(trial))
            parts += [f"\n=== note\n{played.notes[number]}\n\n"] if number < len(played.notes) else []
        write_text(path, "".join(parts).encode("utf-8", "replace").decode())

    def _refuse_a_run(self) -> None:
        """An evaluation has a config.yaml, too, but never without its evaluation.json."""
        ours = ("config.yaml",) if (self.folder / "evaluation.json").exists() else ()
        if any((self.folder / name).exists() for name in OF_A_RUN if name not in ours):
            raise ConfigError(
                f"out={self.folder}: there is a training run in it, which has files of the same names; name another "
                "folder, or leave it out."
            )

    def _check(self, episodes: Path) -> None:
        """What lies there must be of the very same evaluation."""
        path = self.folder / "evaluation.json"
        try:
            summary = json.loads(path.read_text(encoding="utf-8"))
            there = summary["identity"]
            self.counters = dict(summary.get("counters") or {})
            self.seconds = float(summary.get("seconds") or 0.0)
        except FileNotFoundError:
            if episodes.exists():
                raise ConfigError(
                    f"out={self.folder}: it holds episodes.jsonl but no evaluation.json to say of what; name another folder."
                ) from None
            return
        except (ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"out={self.folder}: {path.name} cannot be read ({error!r}); name another folder."
            ) from None
        difference = first_difference(there, self.identity)
        if difference:
            key, old, new = difference
            raise ConfigError(
                f"out={self.folder}: it holds an evaluation with {key}={old}, and this one has {new}; name another folder."
            )


def added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Counters of two parts, with what only one of them has; what is no number is that of the other."""
    out = dict(one)
    for name, value in other.items():
        before = out.get(name)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            out[name] = added(before, value)
        else:
            out[name] = before + value if isinstance(before, int | float) and isinstance(value, int | float) else value
    return out


def first_difference(old: Any, new: Any, key: str = "") -> tuple[str, Any, Any] | None:
    """(dotted key, old value, new value) of the first place where two JSON values differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name in sorted({*old, *new}):
            found = first_difference(old.get(name), new.get(name), f"{key}.{name}".lstrip("."))
            if found:
                return found
        return None
    return None if old == new else (key, old, new)


def summarise(lines: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Averages of all tasks and of each type; `success_by_trial[k]` is the share solved within k+1 trials.

    success and score lie in 0..1; `*_error` is the standard error of the mean over tasks (None for one task).
    """
    kinds = sorted({line["task_type"] for line in lines})
    trials = max((len(line["trials"]) for line in lines), default=1)
    return {
        "all": _averages(lines, trials),
        "by_task_type": {kind: _averages([x for x in lines if x["task_type"] == kind], trials) for kind in kinds},
    }


def _averages(lines: Sequence[Mapping[str, Any]], trials: int) -> dict[str, Any]:
    if not lines:
        return {"tasks": 0}
    turns = sum(trial["turns"] for line in lines for trial in line["trials"])
    invalid = sum(trial["invalid_turns"] for line in lines for trial in line["trials"])
    out: dict[str, Any] = {"tasks": len(lines)}
    for name in ("success", "score", "turns"):
        values = np.array([line[name] for line in lines], dtype=np.float64)
        out[name] = float(values.mean())
        out[f"{name}_error"] = float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
    out["invalid_turn_share"] = invalid / turns if turns else 0.0
    for name in ("prompt_tokens", "response_tokens"):
        counts = [line[name] for line in lines]
        out[name] = None if None in counts else sum(counts)
    out["success_by_trial"] = [
        float(np.mean([any(t["success"] for t in line["trials"][: k + 1]) for line in lines])) for k in range(trials)
    ]
    return out


def table(summary: Mapping[str, Any]) -> list[str]:
    """Lines for the console."""
    rows = [*summary["by_task_type"].items()]
    rows = [*rows, ("all", summary["all"])] if len(rows) != 1 else [(rows[0][0] or "all", summary["all"])]
    trials = len(summary["all"].get("success_by_trial", [0]))
    heads = ["task type", "tasks", "success", "score", "turns", "invalid turns"]
    heads += [f"within {k + 1}" for k in range(trials)] if trials > 1 else []
    cells = [heads]
    for name, row in rows:
        if not row["tasks"]:
            continue
        cells.append(
            [
                name or "(none)",
                str(row["tasks"]),
                _with_error(100 * row["success"], row["success_error"], 100, "{:.1f}") + " %",
                _with_error(row["score"], row["score_error"], 1, "{:.3f}"),
                _with_error(row["turns"], row["turns_error"], 1, "{:.1f}"),
                f"{100 * row['invalid_turn_share']:.1f} %",
                *([f"{100 * share:.1f} %" for share in row["success_by_trial"]] if trials > 1 else []),
            ]
        )
    widths = [max(len(line[k]) for line in cells) for k in range(len(heads))]
    return [
        "  ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w) for k, (cell, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in cells
    ]


def _with_error(value: float, error: float | None, scale: float, form: str) -> str:
    return form.format(value) + (f" ± {form.format(scale * error)}" if error is not None else "")


def _json_line(line: Mapping[str, Any]) -> str:
    return json.dumps(line) + "\n"
