"""`TrainingSpec` in verl's own configuration classes. Built inside the worker: it imports verl's engines."""

from __future__ import annotations

from typing import Any

from verl.trainer.config import CheckpointConfig
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig, TrainingWorkerConfig

from agentrl.engine import training_attention
from agentrl.engine.training_spec import TrainingSpec

STRATEGY = "fsdp2"
VERL_DTYPE = {"float32": "fp32", "bfloat16": "bf16"}


def worker_config(spec: TrainingSpec) -> TrainingWorkerConfig:
    """The actor's."""
    return TrainingWorkerConfig(
        model_type="language_model",
        model_config=model_config(spec),
        engine_config=engine_config(spec),
        optimizer_config=optimizer_config(spec),
        checkpoint_config=checkpoint_config(),
        profiler_config=None,
    )


def schedule(spec: TrainingSpec) -> dict[str, Any]:
    """For `PlannedEngine.schedule`."""
    return {"schedule": spec.lr_schedule, "warmup_steps": spec.warmup_steps, "total_steps": spec.total_steps}


def model_config(spec: TrainingSpec, load_tokenizer: bool = True, value_model: bool = False) -> HFModelConfig:
    return HFModelConfig(
        model_type="value_model" if value_model else "language_model",
        path=spec.model_path,
        load_tokenizer=load_tokenizer,
        trust_remote_code=spec.trust_remote_code,
        use_remove_padding=spec.remove_padding,
        enable_gradient_checkpointing=spec.gradient_checkpointing,
        override_config={"attn_implementation": training_attention.NAME if spec.shares_prefixes else spec.attention},
    )


def engine_config(spec: TrainingSpec, reference: bool = False) -> FSDPEngineConfig:
    """FSDP2, parameters in float32, computation in `spec.dtype`.

    verl gives a `forward_only` engine a pinned-memory offload policy, which a machine without an accelerator cannot
    build. There, and wherever offload is not wanted, the reference is an ordinary engine that is never stepped: its
    optimiser allocates nothing before the first step.
    """
    dtype = VERL_DTYPE[spec.dtype]
    on_cuda = spec.device == "cuda"
    settings: dict[str, Any] = {
        "strategy": STRATEGY,
        "model_dtype": "fp32" if not reference else dtype,
        "mixed_precision": {"param_dtype": dtype, "reduce_dtype": "fp32", "buffer_dtype": "fp32"},
        "use_torch_compile": False,
        "forward_only": reference and on_cuda and spec.offload,
        "param_offload": on_cuda and spec.offload and not reference,
        "optimizer_offload": on_cuda and spec.offload and not reference,
        # One rank holds everything anyway: keep it gathered between forward and backward.
        "reshard_after_forward": spec.workers > 1,
        # verl's worker copies this one from the model settings for its own engine only
        "use_remove_padding": spec.remove_padding,
        "use_dynamic_bsz": False,
        "micro_batch_size_per_gpu": 1,
        "infer_micro_batch_size_per_gpu": 1,
        "seed": spec.seed,
    }
    return FSDPEngineConfig(**settings)


def optimizer_config(spec: TrainingSpec) -> FSDPOptimizerConfig:
    return FSDPOptimizerConfig(
        lr=spec.learning_rate,
        weight_decay=spec.weight_decay,
        betas=spec.betas,
        clip_grad=spec.grad_clip,
        total_training_steps=spec.total_steps,
        lr_warmup_steps=spec.warmup_steps,
    )


def checkpoint_config() -> CheckpointConfig:
    return CheckpointConfig(
        save_contents=["model", "optimizer", "extra", "hf_model"], load_contents=["model", "optimizer", "extra"]
    )
