"""ALFWorld's public games (`alfworld-download`): the list of a split, and one game as the engine takes it.

    DATA/json_2.1.1/{train,valid_seen,valid_unseen}/<task>/<trial>/{traj_data.json, game.tw-pddl}

As in ALFWorld, games with movable receptacles or sliced objects, of other task types, or marked unsolvable are left out.
What cannot be read is left out as well; both are counted by reason.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

from alfworld_env.generate import TASK_TYPES, Game, Goal

FOLDERS = {"train": "train", "validation": "valid_seen", "test": "valid_unseen"}
ROOT = "json_2.1.1"


@dataclass(frozen=True)
class PublicGames:
    """The games of a split: ids in order, the version of the data ("0.3": `put`, "0.4": `move`), and what was left out,
    reason -> number."""

    ids: tuple[str, ...]
    version: str
    left_out: Counter[str] = field(default_factory=Counter)
    fingerprint: str = ""


@lru_cache(maxsize=8)
def public_games(data_dir: str, split: str) -> PublicGames:
    """The games of a split.

    Raises ValueError, one sentence, where the folder is not there or holds no game of the split, or where it mixes the
    data of two versions.
    """
    folder = _split_folder(data_dir, split)
    ids: list[str] = []
    left_out: Counter[str] = Counter()
    examples: dict[str, str] = {}  # version -> a game of it
    digest = blake2b(digest_size=16)
    for trial in sorted(path.parent for path in folder.glob("*/*/traj_data.json")):
        name = f"{split}/{trial.parent.name}/{trial.name}"
        version_or_reason, usable = _look(trial)
        if not usable:
            left_out[version_or_reason] += 1
            continue
        examples.setdefault(version_or_reason, name)
        ids.append(name)
        digest.update(f"{name} {(trial / 'game.tw-pddl').stat().st_size} {version_or_reason}\n".encode())
    if not ids:
        why = ", ".join(f"{count} {reason}" for reason, count in left_out.items()) or "no traj_data.json in it"
        raise ValueError(
            f"{folder} holds no game that can be played ({why}): run alfworld-download, or leave data_dir and "
            "ALFWORLD_DATA empty for generated games."
        )
    if len(examples) > 1:
        (one, first), (two, second) = sorted(examples.items())[:2]
        raise ValueError(
            f"{folder} mixes games of ALFWorld {one} ({first}) and {two} ({second}): keep one version in a folder."
        )
    return PublicGames(tuple(ids), next(iter(examples)), left_out, digest.hexdigest())


def public_game(data_dir: str, task_id: str) -> Game:
    """One game by its id. ValueError, one sentence, where it does not exist or cannot be read."""
    split, _, rest = task_id.partition("/")
    if split not in FOLDERS or rest.count("/") != 1 or ".." in rest:
        raise ValueError(f"task_id {task_id!r} does not exist: use an id that tasks(split) lists.")
    trial = _split_folder(data_dir, split) / rest
    try:
        parameters = json.loads((trial / "traj_data.json").read_text())
        data = json.loads((trial / "game.tw-pddl").read_text())
    except FileNotFoundError:
        raise ValueError(f"task_id {task_id!r} does not exist in {trial.parent.parent}.") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"the game {task_id!r} cannot be read: {error}") from error
    try:
        return Game(task_id, _checked(data), _goal(parameters))
    except (KeyError, TypeError) as error:
        raise ValueError(f"the game {task_id!r} is malformed: {error} is missing.") from error


def version_of(grammar: str) -> str:
    """ "0.3" where objects are `put` somewhere, "0.4" where they are moved. ValueError for anything else."""
    if '"move {o} to {r}"' in grammar:
        return "0.4"
    if '"put {o} in/on {r}"' in grammar:
        return "0.3"
    raise ValueError("with commands of an unknown version")


def _look(trial: Path) -> tuple[str, bool]:
    """(version, True), or (why the game is left out, False)."""
    if "movable" in str(trial.parent.name) or "Sliced" in str(trial.parent.name):
        return "with movable receptacles or sliced objects", False
    try:
        if _goal(json.loads((trial / "traj_data.json").read_text())).task_type not in TASK_TYPES:
            return "of another task type", False
        path = trial / "game.tw-pddl"
        if not path.exists():
            return "without game.tw-pddl", False
        data = _checked(json.loads(path.read_text()))
        if not data.get("solvable", False):
            return "not marked as solvable", False
        return version_of(data["grammar"]), True
    except (OSError, KeyError, TypeError, ValueError) as error:
        return str(error) if str(error).startswith("with ") else "malformed", False


def _checked(data: Any) -> dict[str, Any]:
    for part in ("pddl_domain", "pddl_problem", "grammar"):
        if not isinstance(data[part], str):
            raise TypeError(part)
    checked: dict[str, Any] = data
    return checked


def _goal(parameters: dict[str, Any]) -> Goal:
    wanted = parameters["pddl_params"]
    return Goal(
        parameters["task_type"], wanted["object_target"], wanted["parent_target"] or "", wanted["toggle_target"] or ""
    )


def _split_folder(data_dir: str, split: str) -> Path:
    base = Path(os.path.expanduser(data_dir))
    root = base / ROOT if (base / ROOT).is_dir() else base
    folder = root / FOLDERS[split]
    if not folder.is_dir():
        raise ValueError(
            f"{base} has no folder {ROOT}/{FOLDERS[split]}: run alfworld-download, or leave data_dir and ALFWORLD_DATA "
            "empty for generated games."
        )
    return folder
