"""From the run's configuration to the specs of its workers: the only place where the two meet."""

from __future__ import annotations

from agentrl.config.model import model_folder
from agentrl.config.schema import RunConfig
from agentrl.engine.rollout_spec import RolloutSpec
from agentrl.engine.training_spec import CriticSpec, TrainingSpec


def model_path(config: RunConfig, path: str | None = None) -> str:
    """Of the policy, or of the model that `path` names: a local folder, or a hub id as it is."""
    path = path or config.model.path
    folder = model_folder(path)
    return path if folder is None else str(folder.resolve())


def weight_transfer(config: RunConfig) -> str:
    """Shared memory on one CPU machine, NCCL between GPUs."""
    return "nccl" if config.scale == "gpu" else "shm"


def training_spec(config: RunConfig) -> TrainingSpec:
    actor = config.actor
    return TrainingSpec(
        model_path=model_path(config),
        device="cuda" if config.scale == "gpu" else "cpu",
        workers=actor.workers,
        dtype=config.model.dtype,
        learning_rate=actor.learning_rate,
        warmup_steps=actor.warmup_steps,
        total_steps=config.trainer.total_training_steps * actor.mini_batches,
        lr_schedule=actor.lr_schedule,
        weight_decay=actor.weight_decay,
        betas=actor.betas,
        grad_clip=actor.grad_clip,
        clip_low=actor.clip_low,
        clip_high=actor.clip_high,
        clip_ratio_c=actor.clip_dual,
        kl_coef=actor.kl_coef,
        kl_kind=actor.kl_kind,
        entropy_coef=actor.entropy_coef,
        loss_aggregation=actor.loss_aggregation,
        loss_constant=float(config.episode.max_response_tokens),
        ratio=actor.ratio,
        max_tokens_per_micro_batch=actor.max_tokens_per_micro_batch,
        gradient_checkpointing=actor.gradient_checkpointing,
        offload=actor.offload,
        reference=actor.kl_coef > 0,
        trust_remote_code=config.model.trust_remote_code,
        seed=config.seed,
        threads=actor.threads,
        weight_transfer=weight_transfer(config),  # type: ignore[arg-type]
        critic=critic_spec(config) if config.has_critic else None,
    )


def critic_spec(config: RunConfig) -> CriticSpec:
    critic = config.critic
    return CriticSpec(
        model_path=model_path(config, critic.path),
        learning_rate=critic.learning_rate,
        warmup_steps=critic.warmup_steps,
        total_steps=config.trainer.total_training_steps * critic.mini_batches * critic.epochs,
        lr_schedule=critic.lr_schedule,
        weight_decay=critic.weight_decay,
        grad_clip=critic.grad_clip,
        value_clip=critic.value_clip,
    )


def rollout_spec(config: RunConfig) -> RolloutSpec:
    rollout = config.rollout
    return RolloutSpec(
        model_path=model_path(config),
        device="cuda" if config.scale == "gpu" else "cpu",
        dtype=config.model.dtype,
        tensor_parallel_size=rollout.tensor_parallel_size,
        max_model_len=config.context_length,
        max_num_seqs=rollout.max_num_seqs,
        kv_cache_bytes=rollout.kv_cache_mib << 20,
        gpu_memory_utilization=rollout.gpu_memory_utilization,
        enforce_eager=rollout.enforce_eager,
        enable_prefix_caching=rollout.enable_prefix_caching,
        deterministic=rollout.deterministic,
        seed=config.seed,
        trust_remote_code=config.model.trust_remote_code,
        weight_transfer=weight_transfer(config),  # type: ignore[arg-type]
    )
