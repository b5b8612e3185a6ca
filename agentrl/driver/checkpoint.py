"""Checkpoints: written beside and renamed, verified by a manifest, the last good one kept; and the checks of a resume.

checkpoints/step_20/
  manifest.json        size and SHA-256 of every file
  driver.json          step, task cursor, counters, policy version, recipe, data fingerprint
  actor/               sharded state, optimiser, schedule, RNG
  actor/huggingface/   what `transformers` loads as it lies
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig

# Hashing 15 GB of weights at every start would take minutes: a file above this is checked by its size alone.
HASHED_BYTES = 256 << 20


def save_checkpoint(
    run_dir: Path, step: int, driver_state: dict[str, Any], save_actor: Callable[[Path], None], keep: int
) -> Path:
    """Write `step` atomically: everything goes to a temporary folder, is synced and then renamed.

    Older checkpoints beyond `keep` are removed only afterwards. Returns the folder.
    """
    root = run_dir / "checkpoints"
    root.mkdir(parents=True, exist_ok=True)
    final, partial = root / f"step_{step}", root / f".step_{step}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    save_actor(partial / "actor")
    (partial / "driver.json").write_text(json.dumps(driver_state, indent=1))
    files = {str(p.relative_to(partial)): _describe(p) for p in sorted(partial.rglob("*")) if p.is_file()}
    (partial / "manifest.json").write_text(json.dumps({"step": step, "files": files}, indent=1))
    _sync(partial)
    if final.exists():
        shutil.rmtree(final)
    os.replace(partial, final)
    _sync_folder(root)
    for old in checkpoints(run_dir)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return final


def checkpoints(run_dir: Path) -> list[Path]:
    """Finished checkpoint folders, oldest first."""
    root = run_dir / "checkpoints"
    found = [p for p in root.glob("step_*") if re.fullmatch(r"step_\d+", p.name)] if root.is_dir() else []
    return sorted(found, key=lambda p: int(p.name.split("_")[1]))


def problem(folder: Path) -> str | None:
    """What is wrong with a checkpoint, or None when it is whole."""
    try:
        files = json.loads((folder / "manifest.json").read_text())["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"manifest.json cannot be read ({type(error).__name__})"
    for name, expected in files.items():
        path = folder / name
        if not path.is_file():
            return f"{name} is missing"
        if path.stat().st_size != expected["bytes"]:
            return f"{name} has {path.stat().st_size} bytes instead of {expected['bytes']}"
        if expected["sha256"] and _sha256(path) != expected["sha256"]:
            return f"{name} has changed since it was written"
    return None


def load_driver_state(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "driver.json").read_text()))


def latest(run_dir: Path) -> Path:
    """The newest checkpoint. Raises ConfigError if there is none, or if it is corrupt (the last good one is offered:
    removing or renaming the corrupt folder takes it)."""
    found = checkpoints(run_dir)
    if not found:
        raise ConfigError(
            f"resume={run_dir}: there is no checkpoint in it to go on from; start the run anew, in another folder "
            "(trainer.run_dir=...) or after you have deleted this one."
        )
    wrong = problem(found[-1])
    if wrong is None:
        return found[-1]
    good = next((p for p in reversed(found[:-1]) if problem(p) is None), None)
    remedy = (
        f"the last good one is {good.name}; to take it, remove {found[-1]} and give the same command again"
        if good
        else "there is no older good one; start the run again"
    )
    raise ConfigError(f"resume={run_dir}: checkpoint {found[-1].name} is corrupt: {wrong}; {remedy}.")


def check_resume(config: RunConfig) -> Path:
    """The checkpoint to resume from, after all checks. Raises ConfigError for another recipe or other data."""
    from agentrl.environments.registry import load_environment

    folder = latest(Path(str(config.resume)))
    state = load_driver_state(folder)
    if state["recipe"] != config.recipe:
        raise ConfigError(
            f"resume={config.resume}: that run has the recipe {state['recipe']}, not {config.recipe}; "
            "resume it with its own, or start a new run."
        )
    plugin = load_environment(config.environment.name)
    fingerprint = plugin.tasks(config.environment.train_split, **config.environment.options).fingerprint
    if state["data_fingerprint"] != fingerprint:
        raise ConfigError(
            f"resume={config.resume}: that run trained on data with the fingerprint {state['data_fingerprint']}, and "
            f"environment.name={config.environment.name} now has {fingerprint}; bring the same data and options back, "
            "or start a new run."
        )
    return folder


def _describe(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    return {"bytes": size, "sha256": _sha256(path) if size <= HASHED_BYTES else None}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
    _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
