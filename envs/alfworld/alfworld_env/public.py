"""ALFWorld's public games (`alfworld-download`): the list of a split, and one game as the engine takes it.

    DATA/json_2.1.1/{train,valid_seen,valid_unseen}/<task>/<trial>/{traj_data.json, game.tw-pddl}

As in ALFWorld, games with movable receptacles or sliced objects, of other task types, or marked unsolvable are left out.
What cannot be read or played is left out as well; all are named with the reason.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from alfworld_env.generate import TASK_TYPES, Game, Goal
from alfworld_env.soundness import fault

FOLDERS = {"train": "train", "validation": "valid_seen", "test": "valid_unseen"}
ROOT = "json_2.1.1"
MOVABLE, OTHER_TYPE = "with movable receptacles or sliced objects", "of another task type"
NOT_MEANT = (MOVABLE, OTHER_TYPE)
"""What ALFWorld leaves out on purpose: many trials of the download, and nothing is wrong with them."""


@dataclass(frozen=True)
class PublicGames:
    """The games of a split.

    ids: in order; the task types take turns, so that the first N are of all types.
    types: the task type of each.
    version: of the data ("0.3": `put`, "0.4": `move`).
    left_out: (name, reason) of each trial that is not played.
    fingerprint: of the contents of all files that are read.
    """

    ids: tuple[str, ...]
    types: tuple[str, ...]
    version: str
    left_out: tuple[tuple[str, str], ...]
    fingerprint: str

    @property
    def reasons(self) -> Counter[str]:
        return Counter(reason for _, reason in self.left_out)

    @property
    def faulty(self) -> list[tuple[str, str]]:
        """Those of `left_out` that one would expect to be played."""
        return [(name, reason) for name, reason in self.left_out if reason not in NOT_MEANT]


@dataclass(frozen=True)
class _Look:
    """A trial: why it is left out ("" if it is not), or the data's version, the task type and a digest of its files."""

    reason: str
    version: str = ""
    kind: str = ""
    digest: bytes = b""


@lru_cache(maxsize=8)
def public_games(data_dir: str, split: str) -> PublicGames:
    """The games of a split.

    Raises ValueError, one sentence, where the folder is not there or holds no game of the split, or where it mixes the
    data of two versions, within the split or between splits.
    """
    folder = _split_folder(data_dir, split)
    found: dict[str, _Look] = {}
    left_out: list[tuple[str, str]] = []
    for trial in _trials(folder):
        name = f"{split}/{trial.parent.name}/{trial.name}"
        look = _look(trial)
        if look.reason:
            left_out.append((name, look.reason))
        else:
            found[name] = look
    if not found:
        counted = Counter(reason for _, reason in left_out)
        why = ", ".join(f"{count} {reason}" for reason, count in counted.items()) or "no traj_data.json in it"
        raise ValueError(
            f"{folder} holds no game that can be played ({why}): run alfworld-download, or leave data_dir and "
            "ALFWORLD_DATA empty for generated games."
        )
    version = _one_version(data_dir, split, {look.version: name for name, look in reversed(found.items())})
    kinds = [[name for name, look in found.items() if look.kind == kind] for kind in TASK_TYPES]
    ids = tuple(name for name in chain.from_iterable(zip_longest(*kinds)) if name is not None)
    digest = blake2b(digest_size=16)
    for name in ids:
        digest.update(f"{name} {version}\n".encode() + found[name].digest)
    return PublicGames(ids, tuple(found[name].kind for name in ids), version, tuple(left_out), digest.hexdigest())


def _one_version(data_dir: str, split: str, examples: dict[str, str]) -> str:
    """The only version of `examples` (version -> a game of it), if the other splits have it, too.

    One game of each other split is looked at: whether that split is of one kind is seen when it is listed.
    """
    folder = _split_folder(data_dir, split)
    if len(examples) > 1:
        (one, first), (two, second) = sorted(examples.items())
        raise ValueError(
            f"{folder} mixes games of ALFWorld {one} ({first}) and {two} ({second}): keep one version in a folder."
        )
    (version,) = examples
    for other in (folder.parent / name for name in FOLDERS.values() if name != folder.name):
        looks = (_look(trial) for trial in _trials(other))
        elsewhere = next((look.version for look in looks if not look.reason), version)
        if elsewhere != version:
            raise ValueError(
                f"{folder.parent} holds games of ALFWorld {version} in {folder.name} and of {elsewhere} in {other.name}: "
                "keep one version in a folder."
            )
    return version


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
    wrong = fault(data)
    if wrong:
        raise ValueError(f"the game {task_id!r} is malformed: {wrong}.")
    try:
        return Game(task_id, data, _goal(parameters))
    except (KeyError, TypeError) as error:
        raise ValueError(f"the game {task_id!r} is malformed: {error} is missing in its traj_data.json.") from error


def version_of(grammar: str) -> str:
    """ "0.3" where objects are `put` somewhere, "0.4" where they are moved. ValueError for anything else."""
    if '"move {o} to {r}"' in grammar:
        return "0.4"
    if '"put {o} in/on {r}"' in grammar:
        return "0.3"
    raise ValueError("with commands of an unknown version")


def _trials(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.glob("*/*/traj_data.json"))


def _look(trial: Path) -> _Look:
    if "movable" in trial.parent.name or "Sliced" in trial.parent.name:
        return _Look(MOVABLE)
    try:
        described = (trial / "traj_data.json").read_bytes()
        goal = _goal(json.loads(described))
        if goal.task_type not in TASK_TYPES:
            return _Look(OTHER_TYPE)
    except (OSError, KeyError, TypeError, ValueError):
        return _Look("malformed (traj_data.json cannot be read)")
    try:
        played = (trial / "game.tw-pddl").read_bytes()
        data = json.loads(played)
    except FileNotFoundError:
        return _Look("without game.tw-pddl")
    except (OSError, ValueError):
        return _Look("malformed (game.tw-pddl cannot be read)")
    wrong = fault(data)
    if wrong:
        return _Look(f"malformed ({wrong})")
    if not data.get("solvable", False):
        return _Look("not marked as solvable")
    try:
        version = version_of(data["grammar"])
    except ValueError as error:
        return _Look(str(error))
    # lengths: no byte can move from one file to the other
    digest = blake2b(f"{len(described)} {len(played)}\n".encode() + described + played, digest_size=16).digest()
    return _Look("", version, goal.task_type, digest)


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
