"""What the advantage stage was given at each step, kept for `agentrl.replay`: rollouts/step_00012.json.gz.

One JSON object: step, method, settings, columns (one value per turn; text as codes into labels), advantages (what the
run made of them) and trajectories (task and member, in the order of their numbers). JSON, so that any tool reads it.
"""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentrl.report.files import plain

FOLDER = "rollouts"
VERSION = 1


@dataclass
class Rollouts:
    """columns: name -> n values, for `StepTable.from_columns`; advantages: float64[n]; trajectories: (task, member)."""

    step: int
    method: str
    settings: dict[str, Any]
    columns: dict[str, list[Any]]
    advantages: np.ndarray
    trajectories: list[tuple[str, int]]


def write_rollouts(folder: Path, rollouts: Rollouts) -> Path:
    """Write one step into `folder`/rollouts, atomically; a step that was written before is replaced."""
    columns, labels = {}, {}
    for name, values in rollouts.columns.items():
        if any(isinstance(value, str) for value in values):
            codes: dict[Any, int] = {}
            columns[name] = [codes.setdefault(value, len(codes)) for value in values]
            labels[name] = list(codes)
        else:
            columns[name] = values
    content = {
        "version": VERSION,
        "step": rollouts.step,
        "method": rollouts.method,
        "settings": rollouts.settings,
        "columns": columns,
        "labels": labels,
        "advantages": rollouts.advantages,
        "trajectories": rollouts.trajectories,
    }
    path = folder / FOLDER / f"step_{rollouts.step:05d}.json.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    text = json.dumps(plain(content), ensure_ascii=False, allow_nan=False)
    partial.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass"), compresslevel=5, mtime=0))
    os.replace(partial, path)
    return path


def rollout_files(folder: Path) -> dict[int, Path]:
    """Step -> file, in the order of the steps."""
    found = {}
    for path in (folder / FOLDER).glob("step_*.json.gz"):
        match = re.fullmatch(r"step_(\d+)\.json\.gz", path.name)
        if match:
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def remove_rollouts_after(folder: Path, step: int) -> None:
    """Steps that a resumed run makes anew."""
    for number, path in rollout_files(folder).items():
        if number > step:
            path.unlink()


def read_rollouts(path: Path) -> Rollouts:
    """Raises ValueError, naming the file, for one that cannot be read."""
    try:
        content = json.loads(gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass"))
        if content["version"] != VERSION:
            raise ValueError(f"it has the version {content['version']}, and this agentrl reads {VERSION}")
        labels: Mapping[str, Sequence[Any]] = content["labels"]
        columns = {
            name: [labels[name][code] for code in values] if name in labels else values
            for name, values in content["columns"].items()
        }
        return Rollouts(
            step=int(content["step"]),
            method=str(content["method"]),
            settings=dict(content["settings"]),
            columns=columns,
            advantages=np.array(content["advantages"], dtype=np.float64),
            trajectories=[(str(task), int(member)) for task, member in content["trajectories"]],
        )
    except (OSError, EOFError, ValueError, KeyError, TypeError, IndexError) as error:
        raise ValueError(f"{path} cannot be read: {error or type(error).__name__}") from None
