"""Weights & Biases: online when a key is there, offline when asked for without one. It never asks, never ends a run."""

from __future__ import annotations

import netrc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from agentrl.config.schema import RunConfig
from agentrl.report.files import write_text

LOGIN_SECONDS = 30


def start_wandb(folder: Path, config: RunConfig, warn: Callable[[str], None]) -> Any:
    """A wandb run, or None: `logging.wandb=off`, `auto` without a key, or WANDB_MODE=disabled."""
    wanted = config.logging.wandb
    key = has_key()
    mode = os.environ.get("WANDB_MODE", "online")
    if wanted == "off" or mode == "disabled" or (wanted == "auto" and not key):
        return None
    try:
        return _start(folder, config, online=key and mode == "online")
    except Exception as error:  # whatever goes wrong there, training goes on
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        warn(f"Weights & Biases is not reached ({reason}); its log of this run stays in {folder / 'wandb'}")
    try:
        return _start(folder, config, online=False)
    except Exception as error:
        warn(f"Weights & Biases cannot log offline either ({error}); metrics.jsonl and TensorBoard have everything")
        return None


def _start(folder: Path, config: RunConfig, online: bool) -> Any:
    import wandb

    identity = folder / "wandb_id"  # a resumed run goes on in the same curve
    known = identity.read_text(encoding="utf-8").strip() if identity.is_file() else None
    run = wandb.init(
        project=config.logging.project,
        name=folder.name,
        id=known,
        resume="allow" if known else None,
        dir=str(folder),
        mode="online" if online else "offline",
        config=config.model_dump(mode="json"),
        settings=wandb.Settings(init_timeout=LOGIN_SECONDS, console="off", silent=not online),
    )
    write_text(identity, run.id + "\n")
    run.define_metric("*", step_metric="step")
    return run


def has_key() -> bool:
    """In WANDB_API_KEY or in the netrc file, for the server that WANDB_BASE_URL names."""
    if os.environ.get("WANDB_API_KEY"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL") or "https://api.wandb.ai").netloc
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        return netrc.netrc(path).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False
