"""The folder of a run.

config.yaml        the resolved configuration            metrics.jsonl      one object per training step
command.json       the words that made it (for resume)   evaluations.jsonl  one object per evaluation on held-out tasks
versions.json      packages, git revision, data          tensorboard/       the same numbers
episodes/          evaluation episodes as text           checkpoints/       step_N/
rollouts/          what the advantage stage was given, step by step (for agentrl.replay)
summary.json, learning_curve.png                         at the end
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig
from agentrl.report.files import write_json, write_text
from agentrl.report.versions import versions

OF_A_RUN = ("config.yaml", "metrics.jsonl", "checkpoints")


@dataclass(frozen=True)
class RunDirectory:
    path: Path

    @classmethod
    def create(cls, config: RunConfig, words: list[str], data_fingerprint: str) -> RunDirectory:
        """Make (or, on a resume, reuse) the folder and write what the run is.

        Raises ConfigError when the folder holds another run or cannot be written.
        """
        given = config.trainer.run_dir
        path = Path(given).expanduser() if given is not None else _new_name(config)
        try:
            if config.resume is None and any((path / name).exists() for name in OF_A_RUN):
                go_on = (
                    f"go on with that run by resume={path}"
                    if (path / "checkpoints").exists()
                    else "delete it, if that run has ended (it has no checkpoint to go on from)"
                )
                raise ConfigError(
                    f"trainer.run_dir={path}: there is a run in it already; name another folder, or {go_on}."
                )
            (path / "episodes").mkdir(parents=True, exist_ok=True)
            write_text(path / "config.yaml", yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
            write_json(path / "command.json", {"overrides": words, "recipe": config.recipe})
            _write_versions(path / "versions.json", data_fingerprint)
        except OSError as error:
            raise ConfigError(
                f"trainer.run_dir={path}: cannot be written ({error.strerror or error}); name another folder."
            ) from None
        return cls(path)


def _new_name(config: RunConfig) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    path = Path("runs") / f"{stamp}-{config.recipe.replace('+', '-')}-{config.seed}"
    number = 2
    while path.exists():  # two runs of one recipe and seed, started in the same second
        path, number = path.with_name(f"{path.name.removesuffix(f'.{number - 1}')}.{number}"), number + 1
    return path


def _write_versions(path: Path, data_fingerprint: str) -> None:
    """A resumed run keeps what the run began with; what each resume ran with is listed under `resumed`."""
    now = versions() | {"data_fingerprint": data_fingerprint}
    try:
        first: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        now = first | {"resumed": [*first.get("resumed", []), now]}
    except (FileNotFoundError, ValueError, AttributeError):
        pass
    write_json(path, now)


def python_command() -> str:
    """How the user calls this Python, as short as it can be said: .venv/bin/python, python, or its whole path."""
    path = Path(sys.executable)
    if path.is_relative_to(Path.cwd()):
        return str(path.relative_to(Path.cwd()))
    return "python" if shutil.which("python") == str(path) else str(path)
