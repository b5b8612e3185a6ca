"""The typed, strict schema of a run: one class per section, every default stated once, here.

The defaults are those of a small, generic run; `scale/`, `environment/`, `advantage/` and the recipes state what
differs. Units are in the names or in the comment behind the field. Unknown keys are refused (`extra="forbid"`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Beta = Annotated[float, Field(ge=0, lt=1)]  # how much of a moving average stays at each step


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, validate_default=True, allow_inf_nan=False)


class ModelConfig(Section):
    path: str = "tiny"  # a Hugging Face folder or hub id; "tiny" is the policy that agentrl carries
    dtype: Literal["float32", "bfloat16"] = "float32"
    trust_remote_code: bool = False


class RewardConfig(Section):
    kind: Literal["success", "score", "environment"] = "success"
    scale: float = Field(default=10.0, gt=0)  # reward of a success (GiGPO, PTGPO and PlanPO give 10)


class EnvironmentConfig(Section):
    name: str = "webshop"
    options: dict[str, Any] = Field(default_factory=dict)  # handed to the environment package as they are
    train_split: str = "train"
    max_turns: int = Field(default=15, ge=1)
    reward: RewardConfig = Field(default_factory=RewardConfig)
    servers: int = Field(default=1, ge=1)  # Ray actors
    slots_per_server: int = Field(default=128, ge=1)  # environments in each
    reset_timeout_s: float = Field(default=60.0, gt=0)
    step_timeout_s: float = Field(default=30.0, gt=0)
    max_retries: int = Field(default=3, ge=0)  # recoveries of one trajectory before it is dropped


class EpisodeConfig(Section):
    prompting: Literal["window"] = "window"
    history_length: int = Field(default=2, ge=0)  # past turns shown in the prompt
    max_prompt_tokens: int = Field(default=512, ge=16)
    max_response_tokens: int = Field(default=64, ge=1)
    require_think: bool = True  # a response without <think>...</think> is invalid


class RolloutConfig(Section):
    workers: int = Field(default=1, ge=1)  # vLLM engines
    tensor_parallel_size: int = Field(default=1, ge=1)  # GPUs of one engine
    temperature: float = Field(default=1.0, gt=0)  # at 0 the trajectories of a group would all be the same
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_model_len: int | None = None  # None: prompt and response limits added up
    max_num_seqs: int = Field(default=64, ge=1)
    gpu_memory_utilization: float = Field(default=0.6, gt=0, le=1)
    kv_cache_mib: int = Field(default=64, ge=8)  # CPU only
    enforce_eager: bool = True
    enable_prefix_caching: bool = True
    deterministic: bool = (
        False  # bit-for-bit repeatable (CPU): answers that depend on their batch are made one at a time
    )
    generate_timeout_s: float = Field(default=300.0, gt=0)


class ActorConfig(Section):
    workers: int = Field(default=1, ge=1)  # FSDP2 ranks
    threads: int = Field(default=1, ge=1)  # CPU threads of one rank
    learning_rate: float = Field(default=1e-6, ge=0)
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    weight_decay: float = Field(default=0.01, ge=0)
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    grad_clip: float = Field(default=1.0, gt=0)
    mini_batches: int = Field(default=1, ge=1)  # optimiser steps per training step, always exactly this many
    clip_low: float = Field(default=0.2, gt=0, lt=1)
    clip_high: float = Field(default=0.2, gt=0)
    clip_dual: float = Field(default=3.0, gt=1)
    ratio: Literal["token", "turn"] = "token"
    loss_aggregation: Literal["token-mean", "turn-mean", "token-sum"] = "token-mean"
    kl_coef: float = Field(default=0.01, ge=0)
    kl_kind: Literal["low_var_kl", "kl", "mse", "abs"] = "low_var_kl"
    entropy_coef: float = Field(default=0.0, ge=0)
    max_tokens_per_micro_batch: int = Field(default=16384, ge=64)
    gradient_checkpointing: bool = False
    offload: bool = False  # parameters and optimiser state to the host between updates (GPU)


class CriticConfig(Section):
    """Of methods that ask for values (ppo). It sits with the actor and has its workers and sizes."""

    path: str | None = None  # None: model.path; the layers below a new head
    learning_rate: float = Field(default=1e-5, ge=0)
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    warmup_steps: int = Field(default=0, ge=0)
    weight_decay: float = Field(default=0.01, ge=0)
    grad_clip: float = Field(default=1.0, gt=0)
    mini_batches: int = Field(default=1, ge=1)  # optimiser steps per pass over the step's turns
    epochs: int = Field(default=1, ge=1)  # passes per training step
    # how far a value may move within one pass; verl has 0.5, with which returns of 10 take 20 steps to reach
    value_clip: float | None = Field(default=None, gt=0)
    head_start: int = Field(default=0, ge=0)  # training steps at the beginning in which the critic alone learns


class AdvantageConfig(BaseModel):
    """`name` and the settings of that method; which settings there are is asked of `agentrl.advantage`."""

    model_config = ConfigDict(extra="allow")
    name: str = "ptgpo"


class EvaluationConfig(Section):
    split: str = "validation"
    tasks: int = Field(default=128, ge=1)  # the first N of the split, always the same
    every: int = Field(default=10, ge=0)  # training steps; 0: only before and after
    temperature: float = Field(default=0.4, ge=0)
    transcripts: int = Field(default=8, ge=0)  # episodes written as text at each evaluation


class TrainerConfig(Section):
    total_training_steps: int = Field(default=150, ge=1)
    groups_per_step: int = Field(default=16, ge=1)  # tasks per training step
    group_size: int = Field(default=8, ge=1, le=4096)  # trajectories per task
    min_group_size: int | None = None  # None: a group must be whole
    max_replaced_groups: int = Field(default=8, ge=0)  # per training step; more means something is broken
    max_resampled_groups: int = Field(default=0, ge=0)  # without spread, per training step (DAPO's dynamic sampling)
    max_minutes: float | None = Field(default=None, gt=0)  # of training; the step in hand is finished, then it stops
    checkpoint_every: int = Field(default=10, ge=0)  # training steps; 0: only at the end
    keep_checkpoints: int = Field(default=2, ge=1)
    run_dir: str | None = None  # None: runs/<date>-<recipe>-<seed>


class LoggingConfig(Section):
    wandb: Literal["auto", "on", "off"] = "auto"  # auto: when a key is there
    project: str = "agentrl"
    rollouts: bool = True  # keep what the advantage stage was given at each step, for agentrl.replay
    worker_output: bool = False  # show what the workers print; it lies in Ray's session folder in any case


class ClusterConfig(Section):
    address: str | None = None  # None: RAY_ADDRESS, else a Ray of our own on this machine
    object_store_mib: int = Field(default=512, ge=80)  # of our own Ray


class RunConfig(Section):
    recipe: str = "none"  # filled in from +recipe=NAME
    scale: Literal["cpu", "gpu"] = "cpu"
    seed: int = Field(default=0, ge=0, lt=2**32)
    prompt: str = "paper"  # a template of the environment: compact | paper | its own
    placement: Literal["split"] = "split"
    resume: str | None = None  # a run directory
    model: ModelConfig = Field(default_factory=ModelConfig)
    environment: EnvironmentConfig = Field(default_factory=EnvironmentConfig)
    episode: EpisodeConfig = Field(default_factory=EpisodeConfig)
    rollout: RolloutConfig = Field(default_factory=RolloutConfig)
    actor: ActorConfig = Field(default_factory=ActorConfig)
    critic: CriticConfig = Field(default_factory=CriticConfig)
    advantage: AdvantageConfig = Field(default_factory=AdvantageConfig)
    evaluation: EvaluationConfig = Field(default_factory=EvaluationConfig)
    trainer: TrainerConfig = Field(default_factory=TrainerConfig)
    logging: LoggingConfig = Field(default_factory=LoggingConfig)
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)

    @property
    def method_settings(self) -> dict[str, Any]:
        """The advantage's settings as they are configured."""
        return dict(self.advantage.model_extra or {})

    @property
    def has_critic(self) -> bool:
        from agentrl.advantage import make_settings, needs_critic

        return needs_critic(self.advantage.name, make_settings(self.advantage.name, **self.method_settings))

    @property
    def trajectories_per_step(self) -> int:
        return self.trainer.groups_per_step * self.trainer.group_size

    @property
    def min_group_size(self) -> int:
        return self.trainer.group_size if self.trainer.min_group_size is None else self.trainer.min_group_size

    @property
    def context_length(self) -> int:
        return self.rollout.max_model_len or self.episode.max_prompt_tokens + self.episode.max_response_tokens
