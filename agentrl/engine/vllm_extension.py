"""Our code inside vLLM's worker process: the "shm" weight-transfer engine. Importing this module registers it.

vLLM imports it by name (`worker_extension_cls`) before it makes the worker.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

import torch
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from agentrl.engine.weights_shm import read_tensors


def die_with_parent() -> None:
    """Let this engine process end when the worker that started it is killed (Linux)."""
    if multiprocessing.parent_process() is not None and sys.platform == "linux":
        set_parent_death_signal = 1
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


@dataclass
class SharedMemoryInitInfo(WeightTransferInitInfo):
    pass


@dataclass
class SharedMemoryUpdateInfo(WeightTransferUpdateInfo):
    """`WeightDescriptor.update` of the "shm" backend."""

    path: str
    names: list[str]
    dtype_names: list[str]
    shapes: list[list[int]]
    offsets: list[int]
    size_bytes: int


class SharedMemoryTransferEngine(WeightTransferEngine[SharedMemoryInitInfo, SharedMemoryUpdateInfo]):
    """Loads a published block with vLLM's layerwise reload, which packs CPU weights again."""

    init_info_cls = SharedMemoryInitInfo
    update_info_cls = SharedMemoryUpdateInfo

    def init_transfer_engine(self, init_info: SharedMemoryInitInfo) -> None:
        """Nothing to agree on beforehand."""

    def start_weight_update(self) -> None:
        initialize_layerwise_reload(self.model)

    def receive_weights(self, update_info: SharedMemoryUpdateInfo) -> None:
        self.model.load_weights(read_tensors(**vars(update_info)))

    def finish_weight_update(self) -> None:
        finalize_layerwise_reload(self.model, self.model_config)
        refresh_tied_head(self.model)

    def shutdown(self) -> None:
        """Nothing is held between updates."""


def refresh_tied_head(model: torch.nn.Module) -> None:
    """Pack a tied output head again from the embedding it shares.

    vLLM 0.28 on CPU packs the head at load, and its layerwise reload processes the shared weight under the embedding
    only: the head would go on with the old weights, and nothing would say so.
    """
    for module in model.modules():
        if type(module).__name__ == "ParallelLMHead" and module.weight.numel():
            module.quant_method.process_weights_after_loading(module)


class WorkerExtension:
    """Methods that vLLM adds to its worker, for `collective_rpc`."""

    model_runner: Any

    def use_seeded_sampler(self) -> None:
        """On CPU: see `vllm_sampling`."""
        from agentrl.engine.vllm_sampling import SeededSampler

        self.model_runner.sampler = SeededSampler(self.model_runner.sampler)

    def engine_facts(self) -> dict[str, Any]:
        """For tests and the run record."""
        return {
            "engine_pid": os.getpid(),
            "threads": torch.get_num_threads(),
            "model": type(self.model_runner.model).__name__,
            "parameters": sum(p.numel() for p in self.model_runner.model.parameters()),
        }


if "shm" not in WeightTransferEngineFactory._registry:
    WeightTransferEngineFactory.register_engine("shm", SharedMemoryTransferEngine)
die_with_parent()
