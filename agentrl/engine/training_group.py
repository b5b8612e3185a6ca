"""The driver's handle on the trainer: a verl RayWorkerGroup of our training workers."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np

from agentrl.engine.training_plan import plan
from agentrl.engine.training_spec import TrainingBatch, TrainingSpec

PLATFORM_MODULE = "agentrl.engine.cpu_platform"
RELEASE_TIMEOUT_S = 10.0


def environment_variables(spec: TrainingSpec) -> dict[str, str]:
    """What a process needs before it imports verl: our platform (CPU only), our engine, quiet logs, its threads."""
    variables = {
        "VERL_ENGINE_VENDOR": "agentrl",
        "VERL_LOGGING_LEVEL": "WARN",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": str(spec.threads),
        # Threads that wait must sleep: with other processes on the cores, spinning made an update 4 times slower.
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONWARNINGS": "ignore::UserWarning:verl.workers.engine",  # of engines that are not installed
    }
    if spec.device == "cpu":
        variables |= {"VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": PLATFORM_MODULE, "CUDA_VISIBLE_DEVICES": ""}
    return variables


class TrainingGroup:
    """Calls block until all workers have answered. One call at a time.

    log_probs, update: rows in, results in the order of the rows. publish_weights: for the rollout router.
    """

    def __init__(self, spec: TrainingSpec, workers: Any, pool: Any, store: Any = None) -> None:
        self.spec = spec
        self._store = store  # the workers' meeting point lives as long as they do
        self.version = 0
        self._workers = workers
        self._pool = pool

    @classmethod
    def start(cls, spec: TrainingSpec, *, pool: Any = None, colocate: int = 1) -> TrainingGroup:
        """Start the workers and load the model. Needs an initialised Ray.

        pool: a verl RayResourcePool to sit in (colocated placement shares one); a new one when None, whose bundles
        have room for `colocate` processes each.
        """
        import ray

        if not ray.is_initialized():
            raise RuntimeError("start Ray before the training group (ray.init)")
        variables = environment_variables(spec)
        if spec.device == "cpu":
            # also here, where verl is about to be imported for its controller
            os.environ.update({k: v for k, v in variables.items() if k.startswith("VERL_")})
        from verl.single_controller.ray import RayClassWithInitArgs, RayResourcePool, RayWorkerGroup

        if spec.device == "cpu":
            from agentrl.engine import cpu_platform

            cpu_platform.activate()
        from agentrl.engine.training_actor import TrainingActor
        from agentrl.engine.training_process import meeting_point

        kind = "GPU" if spec.device == "cuda" else "CPU"
        have = ray.cluster_resources().get(kind, 0)
        if pool is None:
            if have < spec.workers * (colocate if kind == "CPU" else 1):
                raise RuntimeError(
                    f"the training group needs {spec.workers} {kind}s and Ray has {have:g}: lower actor.workers, "
                    f"or start Ray with more"
                )
            pool = RayResourcePool(
                process_on_nodes=[spec.workers // spec.nodes] * spec.nodes,
                use_gpu=spec.device == "cuda",
                max_colocate_count=colocate,
            )
        store, address = meeting_point(spec.workers)
        host, port = address or ("127.0.0.1", 0)
        workers = RayWorkerGroup(
            resource_pool=pool,
            ray_cls_with_init=RayClassWithInitArgs(ray.remote(TrainingActor), spec, address),
            device_name=spec.device,
            worker_env=variables,
            # verl would look for a free port that somebody may take before the workers do; ours is held already
            master_addr=host,
            master_port=str(port),
        )
        group = cls(spec, workers, pool, store)
        try:
            group.describe()  # returns when all have loaded the model, raises when one failed
        except BaseException:
            group.close()
            raise
        return group

    def log_probs(self, batch: TrainingBatch, model: str = "actor", temperature: float = 1.0) -> list[np.ndarray]:
        """float32[response tokens] per row, under "actor" or "reference"."""
        if model not in ("actor", "reference"):
            raise ValueError(f"model={model!r}: must be 'actor' or 'reference'")
        if model == "reference" and not self.spec.reference:
            raise ValueError("this training group was started without a reference model: set reference=True")
        batch.check()
        plans = self._plan(batch, 1)
        n = self.spec.workers
        answers = self._workers.row_log_probs(plans, [model] * n, [temperature] * n)
        found = dict(pair for answer in answers for pair in answer)
        return [found[i] for i in range(len(batch))]

    def update(self, batch: TrainingBatch, mini_batches: int = 1, temperature: float = 1.0) -> dict[str, float]:
        """`mini_batches` optimiser steps over the rows, each row once. Metrics: see `TrainingWorker.update`.

        Losses and entropies are means (`loss_aggregation`); `clip_fraction`, `kl`, `entropy`, `log_prob_gap` are per
        response token that counts; `skipped_steps` had a loss or gradient that was not finite and changed nothing.
        """
        start = time.perf_counter()
        batch.check()
        if batch.advantages is None:
            raise ValueError("the training batch has no advantages")
        plans = self._plan(batch, mini_batches)
        n = self.spec.workers
        metrics = dict(self._workers.update(plans, [temperature] * n)[0])
        self.version += 1
        metrics["seconds"] = time.perf_counter() - start
        lengths = [len(p) + len(r) for p, r in zip(batch.prompt_ids, batch.response_ids, strict=True)]
        metrics["input_tokens"] = sum(lengths)
        metrics["tokens_per_second"] = sum(lengths) / metrics["seconds"]
        return metrics

    def values(self, batch: TrainingBatch) -> list[np.ndarray]:
        """float32[response tokens] per row: the critic's value of what stands before each token."""
        self._need_critic()
        batch.check()
        found = dict(pair for answer in self._workers.values(self._plan(batch, 1)) for pair in answer)
        return [found[i] for i in range(len(batch))]

    def update_critic(self, batch: TrainingBatch, mini_batches: int = 1) -> dict[str, float]:
        """`mini_batches` optimiser steps of the critic towards `batch.returns`. Metrics as those of `update`.

        loss: half the squared error, clipped; squared_error, value, return, clip_fraction: per token that counts.
        """
        self._need_critic()
        batch.check()
        if batch.returns is None:
            raise ValueError("the training batch has no returns for the critic to learn")
        start = time.perf_counter()
        metrics = dict(self._workers.update_critic(self._plan(batch, mini_batches))[0])
        return metrics | {"seconds": time.perf_counter() - start}

    def _need_critic(self) -> None:
        if self.spec.critic is None:
            raise ValueError("this training group was started without a critic: set critic=CriticSpec(...)")

    def publish_weights(self, version: int | None = None) -> Any:
        """The descriptor of the current weights, for `RolloutRouter.update_weights`. None: the number of updates."""
        return self._workers.publish(self.version if version is None else version)[0]

    def connect_rollout(self, handles: list[Any], engines_per_worker: int = 1) -> None:
        """Where weights go over "nccl" and "ipc" (`RolloutRouter.handles`); "shm" needs no connection."""
        self._workers.connect(tuple(handles), engines_per_worker)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write everything needed to continue; `folder`/huggingface loads in transformers as it lies.

        RuntimeError when what a worker wrote is not seen here: its machine has another disk under that path.
        """
        path = Path(folder).absolute()
        path.mkdir(parents=True, exist_ok=True)
        self._workers.save(str(path))
        size = self.spec.workers
        shards = [path / f"model_world_size_{size}_rank_{rank}.pt" for rank in range(size)]
        missing = [file.name for file in (*shards, path / "huggingface" / "config.json") if not file.is_file()]
        if missing:
            raise RuntimeError(
                f"the training workers saved to {path}, but {', '.join(missing)} is not there: on several machines "
                "trainer.run_dir must lie on a file system that all of them share"
            )

    def load(self, folder: str | os.PathLike[str]) -> None:
        """Continue from `folder`. ValueError when it was written by another number of workers."""
        path = Path(folder).absolute()
        layout = path / "fsdp_config.json"
        if not layout.is_file():
            raise ValueError(f"{path} is not a training checkpoint: it has no {layout.name}")
        written = json.loads(layout.read_text())["world_size"]
        if written != self.spec.workers:
            raise ValueError(
                f"{path} was written by {written} training workers and this run has {self.spec.workers}: "
                f"set actor.workers={written}, or start from the model in {path / 'huggingface'}"
            )
        if self.spec.critic is not None and not (path / "critic" / "fsdp_config.json").is_file():
            raise ValueError(f"{path} holds no critic: it was written by a run without one")
        self._workers.load(str(path))

    def weights(self) -> dict[str, np.ndarray]:
        """All parameters in float32 by Hugging Face name (small models)."""
        return dict(self._workers.weights()[0])

    def describe(self) -> list[dict[str, Any]]:
        """One dict per worker: pid, threads, parameters of the rank, engine class."""
        return list(self._workers.describe())

    def close(self) -> None:
        """Stop the workers and give their resources back."""
        import ray

        # a worker that is dead, or stuck, is killed next
        with contextlib.suppress(ray.exceptions.RayError, TimeoutError):
            ray.get([worker.release.remote() for worker in self._workers.workers], timeout=RELEASE_TIMEOUT_S)
        for worker in self._workers.workers:
            ray.kill(worker)
        for group in self._pool.pgs or []:
            ray.util.remove_placement_group(group)
        self._pool.pgs = None

    def _plan(self, batch: TrainingBatch, mini_batches: int) -> Any:
        spec = self.spec
        limits = spec.max_tokens_per_micro_batch, spec.micro_batch_size
        return plan(batch, spec.workers, mini_batches, *limits, spec.shares_prefixes)
