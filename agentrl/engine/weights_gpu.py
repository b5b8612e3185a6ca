"""Weights between GPUs, through vLLM's own trainer-side engines: NCCL broadcast, or CUDA IPC on a shared GPU.

`publish` runs the whole transfer: vLLM's engine on rank 0 calls the workers (through Ray) and streams the tensors to
them; the other ranks take part in gathering. The descriptor then only names the version, and the router's
`update_weights` empties the caches and lets the workers go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from agentrl.engine.weights import WeightDescriptor

if TYPE_CHECKING:
    import torch


class RayWorkers:
    """vLLM's `VLLMWeightSyncClient` over our worker actors; every call goes to all of them and waits for all."""

    def __init__(self, workers: list[Any], engines_per_worker: int = 1, timeout_s: float = 600.0) -> None:
        self.workers = workers
        self.engines_per_worker = engines_per_worker
        self.timeout_s = timeout_s
        self.version = 0

    def _all(self, method: str, *arguments: Any) -> None:
        import ray

        ray.get([getattr(worker, method).remote(*arguments) for worker in self.workers], timeout=self.timeout_s)

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        """Each worker is an engine of its own, which counts its ranks from 0: it gets its own offset in the group."""
        import ray

        infos = [dict(init_info) for _ in self.workers]
        if "rank_offset" in init_info:
            for index, info in enumerate(infos):
                info["rank_offset"] += index * self.engines_per_worker
        calls = [worker.transfer_init.remote(info) for worker, info in zip(self.workers, infos, strict=True)]
        ray.get(calls, timeout=self.timeout_s)

    def start_weight_update(self) -> None:
        self._all("transfer_start")

    def update_weights(self, update_info: dict[str, Any]) -> None:
        self._all("transfer_update", update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self._all("transfer_finish", self.version)


class TensorStream:
    """vLLM's `WeightSource` over the tensors of one publication.

    vLLM asks for names, types and shapes before the tensors, and a gathered stream knows them only as it goes by. So
    the first publication is held on the host while they are noted; the later ones pass straight through.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._metadata: list[Any] | None = None
        self._tensors: Iterable[tuple[str, torch.Tensor]] = ()
        self.bytes = 0

    def offer(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        from vllm.distributed.weight_transfer.base import ParamMeta

        if self._metadata is None:
            held = [(name, tensor.detach().to("cpu")) for name, tensor in tensors]
            self._metadata = [ParamMeta(name, tensor.dtype, tuple(tensor.shape)) for name, tensor in held]
            self.bytes = sum(tensor.nbytes for _, tensor in held)
            tensors = held
        self._tensors = tensors

    def metadata(self) -> list[Any]:
        if self._metadata is None:
            raise RuntimeError("no weights were offered yet")
        return self._metadata

    def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
        for name, tensor in self._tensors:
            yield name, tensor.detach().to(self.device)


class GpuPublisher:
    """`WeightPublisher` over "nccl" or "ipc". Make and call it on every trainer rank.

    workers: handles of `RolloutWorker` actors (`RolloutRouter.handles`). After a worker was replaced call `connect`
    with the new handles: the transfer group is formed anew at the next publication.
    """

    def __init__(self, backend: str, rank: int, workers: list[Any], engines_per_worker: int = 1) -> None:
        import torch

        if not torch.cuda.is_available():
            raise ValueError(f"weight_transfer={backend!r} needs a GPU in the trainer: use weight_transfer='shm' here")
        self.backend = backend
        self.rank = rank
        self.engines_per_worker = engines_per_worker
        self.stream = TensorStream(torch.device("cuda", torch.cuda.current_device()))
        self._engine: Any = None
        self.connect(workers)

    def connect(self, workers: list[Any], engines_per_worker: int | None = None) -> None:
        """engines_per_worker: GPUs of one worker (its tensor parallel size)."""
        if self._engine is not None:
            self._engine.shutdown()
        self._engine = None
        self.engines_per_worker = engines_per_worker or self.engines_per_worker
        self.client = RayWorkers(workers, self.engines_per_worker)

    def publish(self, version: int, tensors: Iterable[tuple[str, torch.Tensor]]) -> WeightDescriptor | None:
        if not self.client.workers:
            raise ValueError(f"weight_transfer={self.backend!r} needs the rollout workers: connect(router.handles())")
        self.client.version = version
        self.stream.offer(tensors)
        if self._engine is None:
            self._engine = self._start()
        self._engine.send_weights()
        return WeightDescriptor(version, self.backend, {}, self.stream.bytes) if self.rank == 0 else None

    def close(self) -> None:
        self.connect([])

    def _start(self) -> Any:
        from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

        return WeightTransferTrainerFactory.trainer_init(
            self._init_info(), client=self.client, source=source(self.stream)
        )

    def _init_info(self) -> Any:
        if self.backend == "ipc":
            from vllm.distributed.weight_transfer.ipc_engine import IPCTrainerInitInfo

            return IPCTrainerInitInfo(packed=True, rank=self.rank)
        from vllm.distributed.weight_transfer.nccl_engine import NCCLTrainerInitInfo
        from vllm.utils.network_utils import get_ip, get_open_port

        return NCCLTrainerInitInfo(
            master_address=get_ip(),
            master_port=get_open_port(),
            world_size=1 + len(self.client.workers) * self.engines_per_worker,
            rank=self.rank,
        )


def source(stream: TensorStream) -> Any:
    """The stream as a `WeightSource` (vLLM is imported only where weights are sent)."""
    from vllm.distributed.weight_transfer.base import WeightSource

    class Source(WeightSource):
        def metadata(self) -> list[Any]:
            return stream.metadata()

        def __iter__(self) -> Iterator[tuple[str, torch.Tensor]]:
            return iter(stream)

    return Source()
