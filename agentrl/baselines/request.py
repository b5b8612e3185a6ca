"""What is to be evaluated: from words to a configuration, a model, and the identity that a result is stored under."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from agentrl.baselines.words import EvaluateWords, Words
from agentrl.config.advantage_words import parsed_word, put_key
from agentrl.config.compose import compose_config, gpu_visible, validation_sentence
from agentrl.config.errors import ConfigError
from agentrl.config.model import model_folder
from agentrl.config.schema import RunConfig
from agentrl.environments.registry import load_environment

EDGE_BYTES = 1 << 20  # of each end of a weights file that goes into its fingerprint: 15 GB take minutes to read


@dataclass(frozen=True)
class Request:
    """One evaluation. `config.model.path` is the model; `step` the checkpoint's, where RUN_DIR has one."""

    config: RunConfig
    own: EvaluateWords
    whole_split: bool
    run_dir: Path | None = None
    step: int | None = None
    # of the data that RUN_DIR trained on; None where a word asks for other data, or there is no checkpoint to ask
    data_fingerprint: str | None = None


def resolve(words: Words) -> Request:
    """Raises ConfigError for what cannot be composed or found."""
    if words.run_dir is None and not words.run:
        raise ConfigError(
            "nothing to evaluate: name a recipe, for example +recipe=ptgpo_webshop, or the folder of a run (--help says "
            "more)."
        )
    if words.run_dir is not None:
        return _of_run(words, words.run_dir)
    if words.own.step is not None:
        raise ConfigError(f"step={words.own.step}: checkpoints belong to a run; name its folder (runs/...) as well.")
    config = compose_config(_repeatable(words.run))
    return Request(config, words.own, words.whole_split)


def _repeatable(words: list[str]) -> list[str]:
    """An evaluation is repeatable to the last bit unless a word says otherwise; only the CPU's engine offers it."""
    given = any(word.lstrip("+").startswith("rollout.deterministic=") for word in words)
    scales = [word.split("=", 1)[1] for word in words if word.lstrip("+").startswith("scale=")]
    scale = scales[-1] if scales else "auto"
    on_cpu = not gpu_visible() if scale == "auto" else scale == "cpu"
    return words if given or not on_cpu else [*words, "rollout.deterministic=true"]


def _of_run(words: Words, folder: Path) -> Request:
    """The configuration that the run recorded, with the given keys on top; the model is one of its checkpoints."""
    import yaml

    path = folder / "config.yaml"
    if not path.is_file():
        why = "there is no such folder" if not folder.is_dir() else "no config.yaml there, so it is not a run directory"
        raise ConfigError(f"{folder}: {why}; give the folder of a run (runs/...).")
    try:
        tree = dict(yaml.safe_load(path.read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, TypeError, ValueError) as error:
        why = " ".join(str(error).split())
        raise ConfigError(f"{path}: cannot be read ({type(error).__name__}: {why}).") from None
    environment = tree.get("environment")
    for word in words.run:
        key, _, value = word.lstrip("+").partition("=")
        if key in ("recipe", "environment", "advantage"):
            raise ConfigError(
                f"{word}: {folder} has its own recorded configuration; give single keys, such as "
                "environment.options.difficulty=all, or leave the folder out."
            )
        if key == "model.path":
            raise ConfigError(f"{word}: {folder} has the model; leave one of the two out.")
        keys, parsed = parsed_word(word.lstrip("+"))
        put_key(tree, keys, ("gpu" if gpu_visible() else "cpu") if (key, value) == ("scale", "auto") else parsed)
    if tree.get("scale") == "cpu" and not any(w.lstrip("+").startswith("rollout.deterministic=") for w in words.run):
        put_key(tree, ["rollout", "deterministic"], True)
    step, fingerprint = words.own.step, None
    if words.own.backend == "openai":
        if step is not None:
            raise ConfigError(f"step={step}: backend=openai asks the endpoint's model, not a checkpoint; leave it out.")
    else:
        step, model, fingerprint = _checkpoint(folder, step)
        if model is not None:
            put_key(tree, ["model", "path"], str(model))
    tree["resume"] = None
    try:
        config = RunConfig.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(f"{path}: {validation_sentence(error)}") from None
    if tree.get("environment") != environment:
        fingerprint = None  # other data were asked for in so many words
    if any(word.lstrip("+").startswith("environment.options") for word in words.run):
        fingerprint = None
    return Request(config, words.own, words.whole_split, folder, step, fingerprint)


def _checkpoint(folder: Path, step: int | None) -> tuple[int, Path | None, str | None]:
    """(step, its model's folder, fingerprint of the data). Step 0 is the model that training began with: no folder."""
    from agentrl.driver.checkpoint import checkpoints, load_driver_state, problem

    found = {int(path.name.split("_")[1]): path for path in checkpoints(folder)}
    if step == 0:
        return 0, None, None
    if not found:
        raise ConfigError(f"{folder}: there is no checkpoint in it yet; step=0 evaluates the model it began with.")
    chosen = max(found) if step is None else step
    if chosen not in found:
        raise ConfigError(
            f"step={step}: {folder} has checkpoints of the steps {', '.join(map(str, sorted(found)))} (older ones are "
            "removed, trainer.keep_checkpoints says how many stay), and 0, the model it began with."
        )
    wrong = problem(found[chosen])
    model = found[chosen] / "actor" / "huggingface"
    if wrong is None and not model.is_dir():
        wrong = "it holds no actor/huggingface"
    if wrong is not None:
        good = [s for s in sorted(found, reverse=True) if s != chosen and problem(found[s]) is None]
        remedy = f"step={good[0]} is whole" if good else "no other is whole"
        raise ConfigError(f"step={chosen}: the checkpoint {found[chosen]} is corrupt: {wrong}; {remedy}.")
    return chosen, model, load_driver_state(found[chosen]).get("data_fingerprint")


def identity(request: Request, data_fingerprint: str) -> dict[str, Any]:
    """All that the numbers hang on, as plain JSON: two evaluations with equal identities have equal episodes.

    Where they run, how many at a time, and how many of the tasks, is left out: none of these changes an episode.
    """
    config, own = request.config, request.own
    environment = config.environment
    who: dict[str, Any] = {
        "agent": own.agent,
        "backend": own.backend,
        "split": config.evaluation.split,
        "seed": config.seed,
        "temperature": config.evaluation.temperature,
        "top_p": config.rollout.top_p,
        "prompts": _prompts(request),
        "environment": {
            "name": environment.name,
            "options": environment.options,
            "max_turns": environment.max_turns,
            "reward": environment.reward.model_dump(mode="json"),
            "data_fingerprint": data_fingerprint,
        },
    }
    if own.agent == "policy":
        who |= {"prompt": config.prompt, "episode": config.episode.model_dump(mode="json")}
    else:
        who["history"] = own.history
    if own.agent == "reflexion":
        who["reflexion"] = own.reflexion.model_dump(mode="json")
    if own.backend == "openai":
        who["endpoint"] = own.endpoint.model_dump(mode="json", include={"url", "model", "max_tokens", "extra"})
    else:
        who["model"] = {
            # a folder is known by what is in it, so that a run may be moved; a hub id by its name
            "weights": weights_fingerprint(config.model.path) or config.model.path,
            "dtype": config.model.dtype,
            "device": config.scale,
            "deterministic": config.rollout.deterministic,
            "max_prompt_tokens": config.episode.max_prompt_tokens,
            "max_response_tokens": config.episode.max_response_tokens,
        }
    return who


def _prompts(request: Request) -> str:
    """A fingerprint of the words that the model is shown."""
    from agentrl.baselines import prompts as ours
    from agentrl.episode.templates import find_template

    environments = load_environment(request.config.environment.name).prompts
    if request.own.agent == "policy":
        words = [template.text for template in find_template(request.config.prompt, environments)]
    else:
        words = [ours.rules_of(request.config.environment.name, environments)]
        words += [text for name, text in sorted(vars(ours).items()) if name.isupper() and isinstance(text, str)]
    return hashlib.blake2b("\0".join(words).encode(), digest_size=8).hexdigest()


def weights_fingerprint(path: str) -> str | None:
    """Of a local model's weights and tokenizer: names, sizes and both ends of every file. None for a hub id."""
    folder = model_folder(path)
    if folder is None:
        return None
    digest = hashlib.blake2b(digest_size=16)
    for file in sorted(p for p in folder.iterdir() if p.suffix in (".safetensors", ".bin", ".json", ".jinja")):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as handle:
            digest.update(handle.read(EDGE_BYTES))
            handle.seek(max(EDGE_BYTES, size - EDGE_BYTES))
            digest.update(handle.read(EDGE_BYTES))
    return digest.hexdigest()
