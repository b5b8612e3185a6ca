"""From command-line words to a validated `RunConfig`. Every refusal is a `ConfigError`: one sentence."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from agentrl.config.errors import ConfigError, nearest
from agentrl.config.recipes import recipe_names, search_path
from agentrl.config.schema import RunConfig

FOLDER = Path(__file__).resolve().parent
GROUPS = ("scale", "environment", "advantage")
GIVEN_COLUMNS = (
    "response_length",
    "valid",
    "success",
    "score",
    "entropy",
    "raw_action",
    "value",
)  # beside those that every table must have


def gpu_visible() -> bool:
    """Whether CUDA would find a device, asked of the driver's files and not of torch (whose import takes seconds)."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", None) in ("", "-1"):
        return False
    return Path("/proc/driver/nvidia/gpus").is_dir() or (
        Path("/dev/nvidia0").exists() and shutil.which("nvidia-smi") is not None
    )


def compose_config(overrides: list[str]) -> RunConfig:
    """Compose and validate. `overrides` are Hydra's words: `+recipe=NAME`, `advantage=gigpo`, `actor.workers=2`.

    Raises ConfigError for an unknown recipe, group choice or key, a wrong type, or a value out of its range.
    """
    words = [_normalise(word) for word in overrides]
    tree = _compose(words)
    recipe = next((word.split("=", 1)[1] for word in reversed(words) if word.startswith("+recipe=")), "none")
    tree["recipe"] = "+".join(name.strip() for name in recipe.strip("[]").split(","))
    try:
        config = RunConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(validation_sentence(error)) from None
    _check_advantage(config)
    return config


def _normalise(word: str) -> str:
    """One override as Hydra shall see it: `scale=auto` decided, plain keys allowed through to our own schema."""
    match = re.fullmatch(r"([~+]{0,2})([^=]+)(?:=(.*))?", word, flags=re.DOTALL)
    if not match:
        raise ConfigError(f"{word!r} is not an override; write key=value, for example actor.learning_rate=1e-6.")
    prefix, key, value = match.group(1), match.group(2), match.group(3)
    if value is None and prefix != "~":
        raise ConfigError(
            f"{word!r} has no value; write {key}=VALUE (overrides are key=value, `--help` lists options)."
        )
    if key == "recipe":
        for name in (value or "").strip("[]").split(","):
            if "/" in name or "\\" in name:
                raise ConfigError(
                    f"recipe={name.strip()}: a recipe is named, not a path; put its folder into AGENTRL_RECIPES and give "
                    f"+recipe={Path(name.strip()).stem}."
                )
        return f"+recipe={value}"
    if key in GROUPS and prefix in ("", "+"):
        if (value or "").lower() in ("", "null", "none"):
            raise ConfigError(
                f"{key}={value}: name one of {', '.join(sorted(f.stem for f in (FOLDER / key).glob('*.yaml')))}."
            )
        return f"{key}={'gpu' if gpu_visible() else 'cpu'}" if (key, value) == ("scale", "auto") else f"{key}={value}"
    if prefix == "":
        # `++` hands unknown keys through to the schema, which names the nearest known one
        return f"++{word}"
    return word


def _compose(words: list[str]) -> dict[str, Any]:
    from hydra import compose, initialize_config_dir
    from hydra.core.config_store import ConfigStore
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    ConfigStore.instance().store("schema", RunConfig().model_dump(mode="json"))
    if not any(word.startswith("scale=") for word in words):
        words = [f"scale={'gpu' if gpu_visible() else 'cpu'}", *words]
    path = ",".join(search_path())
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(FOLDER), version_base="1.3"):
            composed = compose("config", [f"hydra.searchpath=[{path}]", *words])
        tree = OmegaConf.to_container(composed, resolve=True)
    except yaml.YAMLError as error:
        raise ConfigError(f"a file of the configuration is no YAML: {' '.join(str(error).split())}") from None
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(_hydra_sentence(str(error), words)) from None
    assert isinstance(tree, dict)
    if tree.get("recipe") not in (None, "none"):  # what Hydra puts below the group's name is nobody's to read
        raise ConfigError(
            f"{' '.join(word.lstrip('+') for word in words if word.startswith('+recipe='))}: its file lacks the first "
            "line `# @package _global_`, without which its keys are not the run's; add it."
        )
    return {str(key): value for key, value in tree.items()}


def _hydra_sentence(text: str, words: list[str]) -> str:
    """Hydra's message as one plain sentence."""
    chosen = dict(word.lstrip("+").split("=", 1) for word in words if "=" in word)
    for group in ("recipe", *GROUPS):
        if f"'{group}/" in text and group in chosen:
            known = recipe_names() if group == "recipe" else [f.stem for f in (FOLDER / group).glob("*.yaml")]
            missing = re.search(rf"'{group}/([^']+)'", text)
            name = missing.group(1) if missing else chosen[group]
            if name not in known:
                return f"{group}={name}: there is no such {group}.{nearest(name, known)}"
            if "global" not in text and group == "recipe":
                return f"recipe={name}: its file must begin with the line `# @package _global_`; add it."
    return " ".join(text.split())[:400]


def validation_sentence(error: ValidationError, model: type[BaseModel] = RunConfig) -> str:
    """pydantic's refusal of a value for `model` as one plain sentence."""
    first = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    value = first.get("input")
    more = "" if len(error.errors()) == 1 else f" ({len(error.errors()) - 1} more after this one.)"
    if first["type"] == "extra_forbidden":
        parent, _, name = key.rpartition(".")
        siblings = _fields_at(parent, model)
        hint = nearest(name, siblings)
        elsewhere = [path for path in known_keys(model) if path.rpartition(".")[2] == name]
        if elsewhere:
            hint = f" Did you mean {', '.join(elsewhere[:3])}?"
        return f"{key}={value!r}: there is no such key.{hint}{more}"
    return f"{key}={value!r}: {first['msg'].lower()}.{more}"


def _fields_at(path: str, model: type[BaseModel]) -> list[str]:
    for part in path.split(".") if path else []:
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        model = annotation
    return list(model.model_fields)


def known_keys(model: type[BaseModel] = RunConfig, prefix: str = "") -> list[str]:
    """Every key of the schema, dotted."""
    keys: list[str] = []
    for name, field in model.model_fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            keys += known_keys(annotation, f"{prefix}{name}.")
        else:
            keys.append(prefix + name)
    return keys


def _check_advantage(config: RunConfig) -> None:
    """The method's settings are known to `agentrl.advantage` only: ask it."""
    from agentrl.advantage import NEEDS, ProgressSettings, make_settings
    from agentrl.advantage.table import REQUIRED

    name, settings = config.advantage.name, config.method_settings
    try:
        made = make_settings(name, **settings)
    except ValueError as error:
        raise ConfigError(f"advantage: {error}") from None
    for key in ("step", "total_steps"):
        if key in settings and isinstance(made, ProgressSettings):
            raise ConfigError(f"advantage.{key}={settings[key]}: the run itself gives it; leave it out.")
    missing = [c for c in (NEEDS[name](made) if name in NEEDS else ()) if c not in (*REQUIRED, *GIVEN_COLUMNS)]
    if missing:
        raise ConfigError(
            f"advantage.name={name}: it needs {' and '.join(missing)} for every trajectory, and this run's episodes have "
            f"none; take another method."
        )
