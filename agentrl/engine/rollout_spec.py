"""What a rollout worker is told, in plain values, and what vLLM is told from it. Imports neither torch nor vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

EXTENSION = "agentrl.engine.vllm_extension.WorkerExtension"
SEED_BOOK = "agentrl.engine.vllm_sampling:SeedBook"


@dataclass(frozen=True)
class RolloutSpec:
    """Plain values that fix one rollout engine. Picklable; the same for all workers of a run.

    max_num_seqs: requests that one engine decodes together. kv_cache_bytes: size of the key/value cache (CPU; on a
    GPU it is what `gpu_memory_utilization` leaves). block_size: tokens in one block of it (None: the platform's own).
    deterministic: tokens and log-probs of a request depend on nothing but its prompt, its seed and the weights, to
    the last bit (CPU only). Tried at start (`rollout_invariance`); an engine that fails works as with one_at_a_time.
    one_at_a_time: no batch and no shared prefix, whatever it costs. threads: CPU threads of one engine.
    sleep: keep the right to free GPU memory between phases (`RolloutWorker.sleep`).
    """

    model_path: str
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: Literal["cpu", "cuda"] = "cpu"
    tensor_parallel_size: int = 1
    max_model_len: int = 2048
    max_num_seqs: int = 64
    kv_cache_bytes: int = 64 << 20
    gpu_memory_utilization: float = 0.6
    enforce_eager: bool = True
    enable_prefix_caching: bool = True
    block_size: int | None = None
    deterministic: bool = False
    one_at_a_time: bool = False
    seed: int = 0
    threads: int = 1
    sleep: bool = False
    trust_remote_code: bool = False
    weight_transfer: Literal["shm", "nccl", "ipc"] = "shm"

    def __post_init__(self) -> None:
        for name in ("tensor_parallel_size", "max_model_len", "max_num_seqs", "kv_cache_bytes", "threads"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: must be at least 1")
        if self.device == "cpu" and self.weight_transfer != "shm":
            raise ValueError(
                f"weight_transfer={self.weight_transfer!r} needs GPUs: on device='cpu' use weight_transfer='shm'"
            )
        if self.device == "cpu" and self.tensor_parallel_size > 1:
            raise ValueError(f"tensor_parallel_size={self.tensor_parallel_size}: must be 1 on device='cpu'")
        if self.device == "cpu" and self.block_size is not None and self.block_size % 16:
            raise ValueError(f"block_size={self.block_size}: must be a multiple of 16 on device='cpu'")
        if self.deterministic and self.device != "cpu":
            raise ValueError("deterministic=True is kept on device='cpu' only: set deterministic=False on a GPU")


def environment_variables(spec: RolloutSpec) -> dict[str, str]:
    """What the worker's process needs before vLLM is imported; vLLM's engine process inherits it."""
    variables = {
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CONFIGURE_LOGGING": "1",
        "VLLM_LOGGING_LEVEL": "ERROR",
        "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
        "TORCH_CPP_LOG_LEVEL": "ERROR",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": str(spec.threads),
    }
    if spec.device == "cpu":
        variables |= {
            # without it the CPU platform turns the `uni` executor into `mp`: one more process, one more copy
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            # `auto` binds every engine to core 0
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            # a split of the keys over threads would make a request's result depend on the batch
            "VLLM_CPU_ATTN_SPLIT_KV": "0",
            "CUDA_VISIBLE_DEVICES": "",
            # glibc: keep freed memory. Otherwise every step gives it back and faults it in again, 15 % of its time.
            "MALLOC_TRIM_THRESHOLD_": str(1 << 30),
            "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
            "MALLOC_TOP_PAD_": str(64 << 20),
        }
    return variables


def engine_arguments(spec: RolloutSpec) -> dict[str, Any]:
    """Keywords of vLLM's AsyncEngineArgs."""
    arguments: dict[str, Any] = {
        "model": spec.model_path,
        "dtype": spec.dtype,
        "seed": spec.seed,
        "max_model_len": spec.max_model_len,
        "max_num_seqs": spec.max_num_seqs,
        "tensor_parallel_size": spec.tensor_parallel_size,
        "enforce_eager": spec.enforce_eager,
        "enable_prefix_caching": spec.enable_prefix_caching,
        "trust_remote_code": spec.trust_remote_code,
        "disable_log_stats": True,
        "use_tqdm_on_load": False,
        "enable_log_requests": False,
        # log-probs of the distribution that was sampled from: temperature (and top-p) applied
        "logprobs_mode": "processed_logprobs",
        "worker_extension_cls": EXTENSION,
        "weight_transfer_config": {"backend": spec.weight_transfer},
        # the model's own generation_config.json must not change sampling behind the recipe's back
        "generation_config": "vllm",
    }
    if spec.device == "cpu":
        arguments |= {
            "distributed_executor_backend": "uni",
            "kv_cache_memory_bytes": spec.kv_cache_bytes,
            "block_size": spec.block_size or 16,
            "logits_processors": [SEED_BOOK],
        }
    else:
        arguments |= {
            "gpu_memory_utilization": spec.gpu_memory_utilization,
            "enable_sleep_mode": spec.sleep,
        }
        if spec.block_size is not None:
            arguments["block_size"] = spec.block_size
    return arguments
