"""What can be checked in a second, before anything expensive starts: sizes, model, environment, machine, resume."""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
from pathlib import Path
from urllib.parse import urlparse

from agentrl.config.errors import ConfigError, nearest
from agentrl.config.schema import RunConfig

TINY_POLICY = Path(__file__).resolve().parent.parent / "assets" / "tiny_policy"
GROUP_METHODS_WANT = 2  # one trajectory has no group statistics


def preflight(config: RunConfig) -> None:
    """Raise ConfigError for the first thing that cannot work."""
    _sizes(config)
    check_model(config)
    _environment(config)
    _run_directory(config)
    _ray_address(config)
    _machine(config)
    _environment_options(config)  # loads the environment's data, so it comes last
    if config.resume:
        from agentrl.driver.checkpoint import check_resume

        check_resume(config)


def model_folder(config: RunConfig) -> Path | None:
    """The local folder of the model, or None for a hub id that must be fetched or is in the hub's cache."""
    path = config.model.path
    if path == "tiny":
        return TINY_POLICY
    folder = Path(path).expanduser()
    if folder.is_dir():
        return folder
    looks_like_hub = path.count("/") == 1 and not path.startswith((".", "/", "~"))
    return None if looks_like_hub else folder


def _sizes(config: RunConfig) -> None:
    trainer, actor = config.trainer, config.actor
    if trainer.group_size < GROUP_METHODS_WANT:
        raise ConfigError(
            f"trainer.group_size={trainer.group_size}: {config.advantage.name} compares the trajectories of a group; "
            "take 2 or more."
        )
    if not 1 < config.min_group_size <= trainer.group_size:
        raise ConfigError(
            f"trainer.min_group_size={config.min_group_size}: must lie between 2 and trainer.group_size "
            f"({trainer.group_size})."
        )
    if trainer.groups_per_step % actor.mini_batches:
        raise ConfigError(
            f"actor.mini_batches={actor.mini_batches}: does not divide trainer.groups_per_step "
            f"({trainer.groups_per_step}); take {_divisors(trainer.groups_per_step)}."
        )
    need = config.episode.max_prompt_tokens + config.episode.max_response_tokens
    if config.rollout.max_model_len is not None and config.rollout.max_model_len < need:
        raise ConfigError(
            f"rollout.max_model_len={config.rollout.max_model_len}: shorter than episode.max_prompt_tokens + "
            f"episode.max_response_tokens ({need}); raise it or leave it out."
        )


def _divisors(number: int) -> str:
    return ", ".join(str(d) for d in range(1, number + 1) if number % d == 0)


def check_model(config: RunConfig) -> None:
    """The model folder is whole, has a chat template and a context that is long enough."""
    folder = model_folder(config)
    key = f"model.path={config.model.path}"
    if folder is None:
        if os.environ.get("HF_HUB_OFFLINE") in ("1", "true", "TRUE") and not _in_hub_cache(config.model.path):
            raise ConfigError(
                f"{key}: not a folder, not in the hub's cache, and HF_HUB_OFFLINE is set; give a local folder, "
                "or unset HF_HUB_OFFLINE to let it be fetched."
            )
        return
    if not folder.is_dir():
        raise ConfigError(f"{key}: there is no such folder; give a Hugging Face model folder, a hub id, or `tiny`.")
    try:
        architecture = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise ConfigError(f"{key}: no config.json in it, so it is not a Hugging Face model folder.") from None
    except ValueError as error:
        raise ConfigError(f"{key}: config.json cannot be read ({error}).") from None
    if not any(folder.glob("*.safetensors")) and not any(folder.glob("*.bin")):
        raise ConfigError(f"{key}: no weights in it (*.safetensors).")
    if not _has_chat_template(folder):
        raise ConfigError(
            f"{key}: its tokenizer has no chat template; take an instruct model, or put a chat_template.jinja there."
        )
    longest = architecture.get("max_position_embeddings")
    if isinstance(longest, int) and config.context_length > longest:
        raise ConfigError(
            f"episode.max_response_tokens={config.episode.max_response_tokens}: with episode.max_prompt_tokens="
            f"{config.episode.max_prompt_tokens} the context is {config.context_length} tokens, but the model has "
            f"{longest}; lower one of them."
        )


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


def _environment(config: RunConfig) -> None:
    known = {point.name for point in importlib.metadata.entry_points(group="agentrl.environments")}
    name = config.environment.name
    if name not in known and ":" not in name:
        raise ConfigError(
            f"environment.name={name}: no installed package offers it (entry point group agentrl.environments)."
            f"{nearest(name, known)}"
        )


def _environment_options(config: RunConfig) -> None:
    """The package itself says whether it knows the options, the splits and the prompt."""
    from agentrl.environments.registry import load_environment

    environment = config.environment
    plugin = load_environment(environment.name)
    if config.prompt not in plugin.prompts and config.prompt not in ("compact", "paper"):
        known = sorted({*plugin.prompts, "compact", "paper"})
        raise ConfigError(
            f"prompt={config.prompt}: {environment.name} has no such template.{nearest(config.prompt, known)}"
        )
    try:
        train = plugin.tasks(environment.train_split, **environment.options).ids
        held_out = plugin.tasks(config.evaluation.split, **environment.options).ids
    except ValueError as error:
        raise ConfigError(f"environment.options={environment.options}: {error}") from None
    if len(train) < config.trainer.groups_per_step:
        raise ConfigError(
            f"trainer.groups_per_step={config.trainer.groups_per_step}: the split {environment.train_split} of "
            f"{environment.name} has {len(train)} tasks; lower it."
        )
    if config.evaluation.tasks > len(held_out):
        raise ConfigError(
            f"evaluation.tasks={config.evaluation.tasks}: the split {config.evaluation.split} of {environment.name} "
            f"has {len(held_out)} tasks; lower it."
        )


def _run_directory(config: RunConfig) -> None:
    folder = Path(config.trainer.run_dir or "runs").expanduser()
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise ConfigError(f"trainer.run_dir={folder}: {existing} is a file; name a folder.")
    # root may write anywhere except where the file system says no, so ask by doing
    probe = existing / f".agentrl-write-test-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"trainer.run_dir={folder}: no permission to write in {existing} ({error.strerror}); name another folder."
        ) from None


def _ray_address(config: RunConfig) -> None:
    address = config.cluster.address or os.environ.get("RAY_ADDRESS")
    if not address or address in ("auto", "local"):
        return
    parsed = urlparse(address if "://" in address else f"tcp://{address}")
    try:
        host, port = parsed.hostname, parsed.port or (10001 if parsed.scheme == "ray" else 6379)
    except ValueError:
        host, port = None, 0
    if not host:
        raise ConfigError(f"RAY_ADDRESS={address}: not an address; write HOST:PORT, or unset it for a Ray of our own.")
    try:
        socket.create_connection((host, port), timeout=1.5).close()
    except OSError as error:
        raise ConfigError(
            f"RAY_ADDRESS={address}: nothing answers there ({error}); start the cluster, correct the address, or "
            "unset it for a Ray of our own."
        ) from None


def _machine(config: RunConfig) -> None:
    """Only for a Ray of our own: what a cluster has is known after joining it (driver.cluster)."""
    if config.cluster.address or os.environ.get("RAY_ADDRESS"):
        return
    if config.scale == "cpu":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        check_workers(config, cores, "cores")
    else:
        gpus = len(list(Path("/proc/driver/nvidia/gpus").glob("*"))) if Path("/proc/driver/nvidia/gpus").is_dir() else 0
        check_workers(config, gpus, "GPUs")


def check_workers(config: RunConfig, have: int, unit: str) -> None:
    """Refuse more workers than `have` cores or GPUs."""
    rollout = config.rollout.workers * (config.rollout.tensor_parallel_size if unit == "GPUs" else 1)
    need = rollout + config.actor.workers
    if need > have:
        key = "rollout.workers" if config.rollout.workers >= config.actor.workers else "actor.workers"
        value = config.rollout.workers if key == "rollout.workers" else config.actor.workers
        remedy = "lower one of them" if unit == "cores" else "lower one of them, or choose scale=cpu"
        raise ConfigError(
            f"{key}={value}: rollout and actor workers together want {need} {unit}, and there are {have}; {remedy}."
        )
