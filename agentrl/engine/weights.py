"""Weights from the trainer to the rollout engines: one publisher interface, three ways through vLLM's own interface.

    shm    one block of shared memory per version; every engine of the machine reads it (CPU; also a GPU machine)
    nccl   broadcast between GPUs, over machines           -> weights_gpu
    ipc    CUDA IPC between processes that share a GPU     -> weights_gpu

The trainer publishes and gets a descriptor (small, picklable); the router hands it to every worker. A descriptor of
"shm" stays good until the second next one is published, so that a worker which dies meanwhile can be restarted with
the current weights. A transfer over "nccl" or "ipc" is complete when `publish` returns; see `weights_gpu`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

BACKENDS = ("shm", "nccl", "ipc")


@dataclass(frozen=True)
class WeightDescriptor:
    """Where one version of the weights is. `update`: the fields of vLLM's update info of that backend."""

    version: int
    backend: str
    update: dict[str, Any] = field(default_factory=dict)
    size_bytes: int = 0


class WeightPublisher(Protocol):
    """Trainer side. `publish` is called on every trainer rank (it drains `tensors`, whose gathering is collective)."""

    def publish(self, version: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightDescriptor | None:
        """Hand over whole tensors by Hugging Face name. The descriptor on rank 0, None on the others."""
        ...

    def close(self) -> None: ...


def make_publisher(backend: str, rank: int = 0, workers: list[Any] | None = None) -> WeightPublisher:
    """The publisher of one trainer rank. `workers`: Ray handles of the rollout workers, for "nccl" and "ipc".

    Raises ValueError for an unknown backend, and for a GPU backend without workers.
    """
    if backend == "shm":
        from agentrl.engine.weights_shm import SharedMemoryPublisher

        return SharedMemoryPublisher(rank)
    if backend in ("nccl", "ipc"):
        from agentrl.engine.weights_gpu import GpuPublisher

        return GpuPublisher(backend, rank, workers or [])
    raise ValueError(f"weight_transfer={backend!r}: must be one of {', '.join(BACKENDS)}")
