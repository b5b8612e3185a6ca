"""What a training group is told: `TrainingSpec` at its start, `TrainingBatch` at every update. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

Aggregation = Literal["token-mean", "turn-mean", "token-sum"]


@dataclass(frozen=True)
class CriticSpec:
    """The value model of PPO: the layers of `model_path` under a new head. It shares workers, dtype and sizes with the
    actor. value_clip: how far a value may move within one update (verl's cliprange_value); None: as far as it likes."""

    model_path: str
    learning_rate: float = 1e-5
    warmup_steps: int = 0
    total_steps: int = 1
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    value_clip: float | None = 0.5


@dataclass(frozen=True)
class TrainingSpec:
    """Plain values that fix the actor, its optimiser and its loss. Picklable.

    loss_aggregation: one denominator for a whole optimiser step, over all workers and micro-batches.
        "token-mean": sum over tokens / tokens; "turn-mean": mean over rows of the row's mean over tokens;
        "token-sum": sum over tokens / (rows * loss_constant), the Dr.GRPO form.
    ratio: "token": pi/pi_old of each token; "turn": the geometric mean over the row's tokens (GSPO).
    dtype: of the computation; parameters and optimiser state are float32 in either case.
    reference: keep a frozen copy of `model_path` for the KL term, in the same processes.
    max_tokens_per_micro_batch: bound on rows * longest row, padding included. micro_batch_size: bound on rows instead.
    remove_padding: pack rows into one (needs attention="flash_attention_2"; elsewhere it is slower than padding).
    share_prefixes: compute what rows have in common at their beginning once (`training_attention`). None: on the CPU.
    """

    model_path: str
    device: Literal["cpu", "cuda"] = "cpu"
    workers: int = 1
    nodes: int = 1
    dtype: Literal["float32", "bfloat16"] = "float32"
    learning_rate: float = 1e-6
    warmup_steps: int = 0
    total_steps: int = 1
    lr_schedule: Literal["constant", "linear", "cosine"] = "constant"
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.999)
    grad_clip: float = 1.0
    clip_low: float = 0.2
    clip_high: float = 0.2
    clip_ratio_c: float = 3.0
    kl_coef: float = 0.0
    kl_kind: Literal["low_var_kl", "kl", "mse", "abs"] = "low_var_kl"
    entropy_coef: float = 0.0
    loss_aggregation: Aggregation = "token-mean"
    loss_constant: float = 1.0
    ratio: Literal["token", "turn"] = "token"
    max_tokens_per_micro_batch: int = 4096
    micro_batch_size: int | None = None
    gradient_checkpointing: bool = False
    offload: bool = False
    reference: bool = False
    remove_padding: bool = False
    share_prefixes: bool | None = None
    attention: str = "sdpa"
    trust_remote_code: bool = False
    seed: int = 0
    threads: int = 1
    weight_transfer: Literal["shm", "nccl", "ipc"] = "shm"
    critic: CriticSpec | None = None

    def for_critic(self) -> TrainingSpec:
        """The same workers and sizes with the critic's model and optimiser."""
        critic = self.critic
        if critic is None:
            raise ValueError("critic=None: this training group has no critic")
        return replace(
            self,
            critic=None,
            reference=False,
            kl_coef=0.0,
            model_path=critic.model_path,
            learning_rate=critic.learning_rate,
            warmup_steps=critic.warmup_steps,
            total_steps=critic.total_steps,
            lr_schedule=critic.lr_schedule,
            weight_decay=critic.weight_decay,
            grad_clip=critic.grad_clip,
        )

    @property
    def shares_prefixes(self) -> bool:
        if self.share_prefixes is None:
            return self.device == "cpu" and not self.remove_padding
        return self.share_prefixes

    def __post_init__(self) -> None:
        if self.shares_prefixes and self.remove_padding:
            raise ValueError("share_prefixes=True and remove_padding=True exclude each other: set one of them to False")
        if self.kl_coef > 0 and not self.reference:
            raise ValueError(f"kl_coef={self.kl_coef} needs a reference model: set reference=True, or kl_coef=0")
        for name in ("workers", "nodes", "threads", "max_tokens_per_micro_batch", "total_steps"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1")
        if self.workers % self.nodes:
            raise ValueError(f"workers={self.workers} does not divide over nodes={self.nodes}")
        if self.clip_ratio_c <= 1:
            raise ValueError(f"clip_ratio_c={self.clip_ratio_c}: must be greater than 1")
        if self.grad_clip <= 0 or self.loss_constant <= 0:
            raise ValueError(f"grad_clip={self.grad_clip} and loss_constant={self.loss_constant} must be positive")


@dataclass
class TrainingBatch:
    """Rows to learn from; one row is one turn (one prompt and the response to it).

    prompt_ids, response_ids: token ids, each row at least one of both.
    advantages: float64[n], one value for all response tokens of a row; or, per row, one value for each of its tokens.
        None in a batch that only a critic learns from or values.
    returns: what a critic's values should be, laid out like the advantages.
    rollout_log_probs: those that the rollout engine reported, per response token; only compared with the trainer's.
    loss_mask: per row, which response tokens count (all, when None); a row may have none.
    reference_log_probs: of the frozen reference, when they are known already.
    """

    prompt_ids: Sequence[Sequence[int]]
    response_ids: Sequence[Sequence[int]]
    advantages: np.ndarray | Sequence[Sequence[float]] | None = None
    rollout_log_probs: Sequence[Sequence[float]] | None = None
    loss_mask: Sequence[Sequence[int]] | None = None
    reference_log_probs: Sequence[Sequence[float]] | None = None
    returns: np.ndarray | Sequence[Sequence[float]] | None = None

    def __len__(self) -> int:
        return len(self.prompt_ids)

    def check(self) -> None:
        """ValueError on the first row that cannot be trained on, naming it."""
        n = len(self)
        if n == 0:
            raise ValueError("the training batch has no rows")
        lengths = [len(r) for r in self.response_ids]
        for i in range(n):
            if not len(self.prompt_ids[i]) or not lengths[i]:
                raise ValueError(f"row {i} of the training batch has an empty prompt or response")
        columns = ("response_ids", "advantages", "rollout_log_probs", "loss_mask", "reference_log_probs", "returns")
        for name in columns:
            column = getattr(self, name)
            if column is None:
                continue
            if len(column) != n:
                raise ValueError(f"{name} has {len(column)} rows, prompt_ids has {n}")
            if name == "response_ids" or not np.ndim(column[0]):
                continue
            for i, row in enumerate(column):
                if len(row) != lengths[i]:
                    raise ValueError(f"{name} of row {i} has {len(row)} values for {lengths[i]} response tokens")
        for name in ("advantages", "returns"):
            values = getattr(self, name)
            for i, row in enumerate(values if values is not None else ()):
                if not np.all(np.isfinite(row)):
                    raise ValueError(f"{name} of row {i} is not a finite number: {row}")
