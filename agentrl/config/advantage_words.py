"""The method that a finished run used, and the one that words such as `advantage=ptgpo advantage.tau_expand=4` choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentrl.config.compose import compose_config
from agentrl.config.errors import ConfigError


@dataclass
class RunMethod:
    """name and settings of the advantage, total_steps of the run, and what a method's defaults may refer to."""

    name: str
    settings: dict[str, Any]
    total_steps: int
    max_response_tokens: int
    scale: str


def run_method(folder: Path) -> RunMethod:
    """From a run directory's config.yaml. Raises ConfigError when it is none or was written by another version."""
    import yaml

    path = folder / "config.yaml"
    if not path.is_file():
        why = "there is no such folder" if not folder.is_dir() else "no config.yaml there, so it is not a run directory"
        raise ConfigError(f"{folder}: {why}; give the folder of a run (runs/...).")
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
        settings = dict(config["advantage"])
        return RunMethod(
            str(settings.pop("name")),
            settings,
            int(config["trainer"]["total_training_steps"]),
            int(config["episode"]["max_response_tokens"]),
            str(config["scale"]),
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read ({type(error).__name__}: {error}).") from None


def chosen_method(run: RunMethod, words: list[str]) -> tuple[str, dict[str, Any], Any]:
    """(name, settings as given, checked settings). Without `advantage=` the run's own method, its settings overridden.

    Raises ConfigError for an unknown method or setting, and for a value that is not allowed.
    """
    from agentrl.advantage import make_settings

    name, settings = run.name, dict(run.settings)
    choice = [word for word in words if word.startswith("advantage=")]
    named = [word.split("=", 1)[1] for word in words if word.startswith("advantage.name=")]
    if choice and choice[-1] != f"advantage={run.name}":
        base = [f"scale={run.scale}", f"episode.max_response_tokens={run.max_response_tokens}", choice[-1]]
        config = compose_config([*base, *_required(words)])
        name, settings = config.advantage.name, config.method_settings
    elif named and named[-1] != run.name:
        name, settings = named[-1], {}
    for word in words:
        if word.startswith("advantage.") and not word.startswith("advantage.name="):
            keys, value = parsed_word(word)
            put_key(settings, keys[1:], value)
    try:
        return name, settings, make_settings(name, **settings)
    except ValueError as error:
        raise ConfigError(f"advantage: {error}") from None


def _required(words: list[str]) -> list[str]:
    """What a method cannot be composed without."""
    return [word for word in words if word.startswith("advantage.terms")]


def parsed_word(word: str) -> tuple[list[str], Any]:
    """Hydra's grammar, so that values read as they do on the command line of a run."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        override = OverridesParser.create().parse_override(f"++{word}")
    except HydraException as error:
        raise ConfigError(f"{word}: {' '.join(str(error).split())[:200]}") from None
    return override.key_or_group.split("."), override.value()


def put_key(settings: dict[str, Any], keys: list[str], value: Any) -> None:
    """settings[a][b] = value for the keys [a, b]; what lies between is made, or copied."""
    *path, last = keys
    for key in path:
        inner = settings.get(key)
        settings[key] = settings = dict(inner) if isinstance(inner, dict) else {}  # type: ignore[assignment]
    settings[last] = value
