"""`resume=RUN_DIR`: the words of the stopped run, then the new ones; another recipe is refused."""

from __future__ import annotations

import json
from pathlib import Path

from agentrl.config.compose import GROUPS, compose_config
from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig


def resolve(words: list[str]) -> tuple[RunConfig, list[str]]:
    """The configuration and the full list of words that made it (stored with the run, so that it can be resumed).

    A word given twice counts once, the later one.
    """
    resume = next((word.split("=", 1)[1] for word in reversed(words) if word.lstrip("+").startswith("resume=")), None)
    words = [word for word in words if not word.lstrip("+").startswith("resume=")]
    if resume in (None, "", "null"):
        words = _last_of_each(words)
        return compose_config(words), words
    folder = Path(str(resume))
    saved = _saved_words(folder)
    given = [word for word in words if word.lstrip("+").startswith("recipe=")]
    before = [word for word in saved if word.lstrip("+").startswith("recipe=")]
    if given and given != before:
        raise ConfigError(
            f"resume={folder}: that run was started with {' '.join(before) or 'no recipe'}, not {given[-1]}; "
            "resume it without +recipe, or start a new run."
        )
    saved = [word for word in saved if not word.startswith("trainer.run_dir=")]
    both = _last_of_each(saved + words)
    config = compose_config([*both, f"resume={folder}", f"trainer.run_dir={folder}"])
    if words:
        _check_kept(folder, compose_config(saved), config)
    words = both
    return config, words


def _check_kept(folder: Path, before: RunConfig, after: RunConfig) -> None:
    """ConfigError for a new value of what a run's state hangs on."""
    if after.has_critic and not before.has_critic:
        raise ConfigError(
            f"advantage.name={after.advantage.name}: it needs a critic, and the run in resume={folder} has none "
            f"(advantage.name={before.advantage.name}); go on with a method without one, or start a new run."
        )
    kept = [("seed", before.seed, after.seed), ("model.path", before.model.path, after.model.path)]
    if after.has_critic:
        kept.append(("critic.path", before.critic.path, after.critic.path))
    for key, old, new in kept:
        if old != new:
            raise ConfigError(
                f"{key}={new}: the run in resume={folder} has {key}={old}, and a resumed run keeps it; leave it out, or "
                "start a new run."
            )


def _saved_words(folder: Path) -> list[str]:
    try:
        record = json.loads((folder / "command.json").read_text())
        return [str(word) for word in record["overrides"]]
    except FileNotFoundError:
        raise ConfigError(f"resume={folder}: no command.json there; give the folder of a run (runs/...).") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"resume={folder}: command.json cannot be read ({error}).") from None


def _last_of_each(words: list[str]) -> list[str]:
    last: dict[str, str] = {}
    for word in words:
        key = word.split("=", 1)[0]
        key = key.lstrip("+") if key.lstrip("+") in (*GROUPS, "recipe") else key
        last.pop(key, None)
        last[key] = word
    return list(last.values())
