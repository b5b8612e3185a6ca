"""What can be checked in a second, before anything expensive starts: sizes, model, environment, machine, resume."""

from __future__ import annotations

import importlib.metadata
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlparse

from agentrl.config.errors import ConfigError, nearest
from agentrl.config.model import check_critic, check_model
from agentrl.config.schema import EnvironmentConfig, RunConfig
from agentrl.environments.contract import ContractError, EnvironmentPlugin

GROUP_METHODS_WANT = 2  # one trajectory has no group statistics


def preflight(config: RunConfig) -> None:
    """Raise ConfigError for the first thing that cannot work."""
    _sizes(config)
    check_model(config)
    check_critic(config)
    check_environment_name(config)
    check_writable("trainer.run_dir", Path(config.trainer.run_dir or "runs"))
    check_ray_address(config)
    check_machine(config)
    _environment_options(config)  # loads the environment's data, so it comes last
    if config.resume:
        from agentrl.driver.checkpoint import check_resume

        check_resume(config)


def _sizes(config: RunConfig) -> None:
    from agentrl.advantage import WITHOUT_GROUPS

    trainer, actor = config.trainer, config.actor
    smallest = 1 if config.advantage.name in WITHOUT_GROUPS else GROUP_METHODS_WANT
    if trainer.group_size < smallest:
        raise ConfigError(
            f"trainer.group_size={trainer.group_size}: {config.advantage.name} compares the trajectories of a group; "
            "take 2 or more."
        )
    if not smallest <= config.min_group_size <= trainer.group_size:
        raise ConfigError(
            f"trainer.min_group_size={config.min_group_size}: must lie between {smallest} and trainer.group_size "
            f"({trainer.group_size})."
        )
    if trainer.groups_per_step % actor.mini_batches:
        raise ConfigError(
            f"actor.mini_batches={actor.mini_batches}: does not divide trainer.groups_per_step "
            f"({trainer.groups_per_step}); take {_divisors(trainer.groups_per_step)}."
        )
    turns = trainer.groups_per_step * config.min_group_size  # at least
    if config.has_critic and config.critic.mini_batches > turns:
        raise ConfigError(
            f"critic.mini_batches={config.critic.mini_batches}: a training step may have only {turns} turns "
            "(trainer.groups_per_step x trainer.group_size); lower it."
        )
    need = config.episode.max_prompt_tokens + config.episode.max_response_tokens
    if config.rollout.max_model_len is not None and config.rollout.max_model_len < need:
        raise ConfigError(
            f"rollout.max_model_len={config.rollout.max_model_len}: shorter than episode.max_prompt_tokens + "
            f"episode.max_response_tokens ({need}); raise it or leave it out."
        )


def _divisors(number: int) -> str:
    return ", ".join(str(d) for d in range(1, number + 1) if number % d == 0)


def check_environment_name(config: RunConfig) -> None:
    """An installed package offers the environment."""
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
    try:
        plugin = load_environment(environment.name)
    except ContractError as error:
        raise ConfigError(f"environment.name={environment.name}: {error}") from None
    check_prompt(config, plugin.prompts)
    check_playable(environment, plugin)
    train, held_out = (
        task_ids(environment, plugin, split) for split in (environment.train_split, config.evaluation.split)
    )
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


def check_playable(environment: EnvironmentConfig, plugin: EnvironmentPlugin) -> None:
    """The engine that the package needs is on this machine, as far as the package can tell without starting it."""
    preflight = getattr(plugin, "preflight", None)
    if preflight is None:
        return
    try:
        preflight(**environment.options)
    except (ValueError, TypeError, RuntimeError, OSError, ImportError) as error:
        raise ConfigError(f"environment.name={environment.name}: {error}") from None


def task_ids(environment: EnvironmentConfig, plugin: EnvironmentPlugin, split: str) -> Sequence[str]:
    """The tasks of a split, once the package has accepted the options."""
    if "split" in environment.options:
        raise ConfigError(
            f"environment.options.split={environment.options['split']}: the splits of a run are named by "
            "environment.train_split and evaluation.split."
        )
    try:
        return plugin.tasks(split, **environment.options).ids
    except (ValueError, TypeError) as error:
        raise ConfigError(f"environment.options={environment.options}: {error}") from None


def check_prompt(config: RunConfig, prompts: Mapping[str, str]) -> None:
    """`prompts` (an environment's) or the generic templates have the one that `prompt` names."""
    known = sorted({*prompts, "compact", "paper"} - {"rules"})  # those are for the prompting baselines: no page in them
    if config.prompt not in known:
        raise ConfigError(
            f"prompt={config.prompt}: {config.environment.name} has no such template.{nearest(config.prompt, known)}"
        )


def check_writable(key: str, folder: Path) -> None:
    """`folder`, the value of `key`, is or can be made a folder that can be written in."""
    folder = folder.expanduser()
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    if not existing.is_dir():
        raise ConfigError(f"{key}={folder}: {existing} is a file; name a folder.")
    # root may write anywhere except where the file system says no, so ask by doing
    probe = existing / f".agentrl-write-test-{os.getpid()}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"{key}={folder}: no permission to write in {existing} ({error.strerror}); name another folder."
        ) from None


def check_ray_address(config: RunConfig) -> None:
    """Something answers where RAY_ADDRESS points."""
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


def check_machine(config: RunConfig, training: bool = True) -> None:
    """Room for the workers. Only for a Ray of our own: what a cluster has is known after joining it (driver.cluster)."""
    if config.cluster.address or os.environ.get("RAY_ADDRESS"):
        return
    if config.scale == "cpu":
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        check_workers(config, cores, "cores", training)
    else:
        gpus = len(list(Path("/proc/driver/nvidia/gpus").glob("*"))) if Path("/proc/driver/nvidia/gpus").is_dir() else 0
        check_workers(config, gpus, "GPUs", training)


def check_workers(config: RunConfig, have: int, unit: str, training: bool = True) -> None:
    """Refuse more workers than `have` cores or GPUs. Without `training` there are rollout workers only."""
    rollout = config.rollout.workers * (config.rollout.tensor_parallel_size if unit == "GPUs" else 1)
    need = rollout + config.actor.workers
    if not training and rollout > have:
        remedy = "lower it" if unit == "cores" else "lower it, or choose scale=cpu"
        raise ConfigError(
            f"rollout.workers={config.rollout.workers}: they want {rollout} {unit}, and there are {have}; {remedy}."
        )
    if training and need > have:
        key = "rollout.workers" if config.rollout.workers >= config.actor.workers else "actor.workers"
        value = config.rollout.workers if key == "rollout.workers" else config.actor.workers
        remedy = "lower one of them" if unit == "cores" else "lower one of them, or choose scale=cpu"
        raise ConfigError(
            f"{key}={value}: rollout and actor workers together want {need} {unit}, and there are {have}; {remedy}."
        )
