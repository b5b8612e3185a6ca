"""Checks of models before anything loads them: the folder is whole, has a chat template, fits the run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig

ASSETS = Path(__file__).resolve().parent.parent / "assets"
TINY = {"tiny": "tiny_policy"} | {f"tiny_{name}": f"tiny_{name}" for name in ("alfworld", "scienceworld", "sokoban")}
"""Policies that agentrl carries: model.path -> folder under assets. `tiny` reads WebShop, the others what their names say."""


def model_folder(path: str) -> Path | None:
    """The local folder of a model, or None for a hub id that must be fetched or is in the hub's cache."""
    if path in TINY:
        return ASSETS / TINY[path]
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    looks_like_hub = path.count("/") == 1 and not path.startswith((".", "/", "~"))
    return None if looks_like_hub else folder


def check_model(config: RunConfig) -> None:
    """The model folder is whole, has a chat template and a context that is long enough."""
    architecture = _architecture(f"model.path={config.model.path}", config.model.path)
    if architecture is None:
        return
    folder = model_folder(config.model.path)
    assert folder is not None
    if not _has_chat_template(folder):
        raise ConfigError(
            f"model.path={config.model.path}: its tokenizer has no chat template; take an instruct model, or put a "
            "chat_template.jinja there."
        )
    longest = architecture.get("max_position_embeddings")
    if isinstance(longest, int) and config.context_length > longest:
        raise ConfigError(
            f"episode.max_response_tokens={config.episode.max_response_tokens}: with episode.max_prompt_tokens="
            f"{config.episode.max_prompt_tokens} the context is {config.context_length} tokens, but the model has "
            f"{longest}; lower one of them."
        )


def check_critic(config: RunConfig) -> None:
    """The critic's model is whole and reads the policy's token ids."""
    path = config.critic.path
    if not config.has_critic or path is None:
        return
    architecture = _architecture(f"critic.path={path}", path)
    ours, theirs = model_folder(config.model.path), model_folder(path)
    if architecture is None or ours is None or theirs is None:
        return
    if _vocabulary(ours) != _vocabulary(theirs):
        raise ConfigError(
            f"critic.path={path}: its tokenizer is not that of model.path={config.model.path}, whose token ids it would "
            "read; take a critic of the same family, or leave critic.path out."
        )


def _vocabulary(folder: Path) -> object:
    try:
        return json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _architecture(key: str, path: str) -> dict[str, Any] | None:
    """config.json of a local model that is whole; None for one that must be fetched."""
    folder = model_folder(path)
    if folder is None:
        if os.environ.get("HF_HUB_OFFLINE") in ("1", "true", "TRUE") and not _in_hub_cache(path):
            raise ConfigError(
                f"{key}: not a folder, not in the hub's cache, and HF_HUB_OFFLINE is set; give a local folder, "
                "or unset HF_HUB_OFFLINE to let it be fetched."
            )
        return None
    if not folder.is_dir():
        raise ConfigError(
            f"{key}: there is no such folder; give a Hugging Face model folder, a hub id, or {', '.join(TINY)}."
        )
    try:
        architecture = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise ConfigError(f"{key}: no config.json in it, so it is not a Hugging Face model folder.") from None
    except ValueError as error:
        raise ConfigError(f"{key}: config.json cannot be read ({error}).") from None
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        raise ConfigError(f"{key}: no weights in it (*.safetensors).")
    return dict(architecture)


def _in_hub_cache(name: str) -> bool:
    home = Path(os.environ.get("HF_HOME", Path.home() / ".cache" / "huggingface"))
    cache = Path(os.environ.get("HF_HUB_CACHE", home / "hub"))
    return (cache / ("models--" + name.replace("/", "--")) / "snapshots").is_dir()


def _has_chat_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    try:
        return bool(json.loads((folder / "tokenizer_config.json").read_text()).get("chat_template"))
    except (OSError, ValueError):
        return False
