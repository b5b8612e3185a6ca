"""One rank of the trainer: verl's `TrainingWorker` holding the actor and, if wanted, the frozen reference and the critic."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from verl.workers.engine import EngineRegistry
from verl.workers.engine_workers import TrainingWorker as VerlTrainingWorker

from agentrl.engine import training_engine, verl_configs  # noqa: F401  (registers the engine)
from agentrl.engine.critic import Critic
from agentrl.engine.learner import Learner, Outputs
from agentrl.engine.loss import PolicyLoss
from agentrl.engine.training_batches import MicroBatch
from agentrl.engine.training_plan import WorkerPlan
from agentrl.engine.training_process import join_process_group, quiet
from agentrl.engine.training_spec import TrainingSpec
from agentrl.engine.weights import WeightPublisher, make_publisher
from agentrl.engine.weights_gpu import GpuPublisher


class TrainingWorker(VerlTrainingWorker):
    """Adds to verl's worker: our loss over planned micro-batches, the reference, publishing, one-folder checkpoints.

    All methods are called on every rank at once (they contain collectives).
    """

    def __init__(self, spec: TrainingSpec, store_address: tuple[str, int] | None = None) -> None:
        """store_address: of the driver's store, where the ranks meet; a rank alone needs none."""
        torch.set_num_threads(spec.threads)
        torch.manual_seed(spec.seed)
        with quiet():
            join_process_group(spec.device, store_address)
            super().__init__(verl_configs.worker_config(spec))
            self.spec = spec
            self.publisher: WeightPublisher | None = None
            self.rollout_workers: list[Any] = []
            self.reference: Any = None
            self.critic: Any = None
            self.engine.schedule = verl_configs.schedule(spec)
            self.reset()
            if spec.reference:
                self.reference = EngineRegistry.new(
                    model_type="language_model",
                    backend=verl_configs.STRATEGY,
                    model_config=verl_configs.model_config(spec, load_tokenizer=False),
                    engine_config=verl_configs.engine_config(spec, reference=True),
                    optimizer_config=verl_configs.optimizer_config(spec),
                    checkpoint_config=verl_configs.checkpoint_config(),
                )
                self.reference.initialize()
            if spec.critic is not None:
                self.critic = Critic(spec)
        if spec.shares_prefixes:
            self.engine.check_prefix_tree()
        self.set_loss_fn(PolicyLoss(spec))
        self.actor = Learner(self.engine, "log_probs", self.loss_fn)

    def row_log_probs(self, plan: WorkerPlan, model: str, temperature: float) -> list[tuple[int, np.ndarray]]:
        """(row, float32[response tokens]) of this rank's rows, under "actor" or "reference"."""
        learner = self.actor if model == "actor" else Learner(self.reference, "log_probs", None)
        return learner.rows(plan, self._outputs(learner.engine, temperature, entropy=False))

    def update(self, plan: WorkerPlan, temperature: float) -> dict[str, float]:
        """One optimiser step of the actor per mini-batch of the plan. Metrics are over all workers: see `Learner`."""
        gradient = self.spec.entropy_coef > 0
        return self.actor.update(
            plan,
            outputs=self._outputs(self.engine, temperature, entropy_gradient=gradient),
            inferred=self._outputs(self.engine, temperature, entropy=False),
            extra=partial(self._reference_log_probs, temperature=temperature),
        )

    def _outputs(self, engine: Any, temperature: float, **wanted: bool) -> Outputs:
        return partial(engine.response_outputs, temperature=temperature, **wanted)

    def _reference_log_probs(self, micros: list[MicroBatch], temperature: float) -> list[dict[str, Any]]:
        if all(m.reference_log_probs is not None for m in micros):
            known: list[Any] = [self.actor.tensor(m.reference_log_probs) for m in micros]
        elif self.reference is None or not self.spec.kl_coef:
            known = [None] * len(micros)
        else:
            frozen = Learner(self.reference, "log_probs", None)
            known = list(frozen.infer(micros, self._outputs(self.reference, temperature, entropy=False)))
        return [{"reference_log_probs": rows} for rows in known]

    def values(self, plan: WorkerPlan) -> list[tuple[int, np.ndarray]]:
        """The critic's; see `Critic.values`."""
        return self.critic.values(plan)

    def update_critic(self, plan: WorkerPlan) -> dict[str, float]:
        return self.critic.update(plan)

    def publish(self, version: int) -> Any:
        """Hand all weights, gathered whole, to the weight publisher of rank 0; its descriptor, None on other ranks."""
        if self.publisher is None:
            self.publisher = make_publisher(self.spec.weight_transfer, self.rank, self.rollout_workers)
        tensors, _ = self.engine.get_per_tensor_param()
        return self.publisher.publish(version, self._untied(tensors))

    def connect(self, rollout_workers: tuple[Any, ...], engines_per_worker: int) -> None:
        """Where "nccl" and "ipc" send weights; again after a rollout worker was replaced."""
        self.rollout_workers = list(rollout_workers)
        if self.publisher is None:
            self.publisher = make_publisher(self.spec.weight_transfer, self.rank, self.rollout_workers)
        if isinstance(self.publisher, GpuPublisher):
            self.publisher.connect(self.rollout_workers, engines_per_worker)

    def release(self) -> None:
        """Before the process is ended: take back what it shared."""
        if self.publisher is not None:
            self.publisher.close()
            self.publisher = None

    def _untied(self, tensors: Iterator[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        """Names as in the Hugging Face checkpoint: a head tied to the embedding has no entry of its own."""
        tied = set(getattr(self.engine.module, "_tied_weights_keys", None) or ())
        if not getattr(self.engine.module.config, "tie_word_embeddings", False):
            tied = set()
        dtype = getattr(torch, self.spec.dtype)
        for name, tensor in tensors:
            if name not in tied:
                yield name, tensor.detach().to(dtype)

    def weights(self) -> dict[str, np.ndarray] | None:
        """All weights in float32, whole, on rank 0 (tests and tools; a large model does not fit a message)."""
        tensors, _ = self.engine.get_per_tensor_param()
        found = {name: tensor.detach().float().cpu().numpy().copy() for name, tensor in self._untied(tensors)}
        return found if self.rank == 0 else None

    def save(self, folder: str) -> None:
        """Shards, optimiser, schedule and RNG in `folder`, the Hugging Face model in `folder`/huggingface.

        The critic's, laid out alike, in `folder`/critic.
        """
        self.save_checkpoint(folder)
        if self.critic is not None:
            self.critic.save(str(Path(folder, "critic")))
        if self.rank == 0:
            for config in Path(folder).glob("**/huggingface/config.json"):
                as_trained(config)
        dist.barrier()

    def load(self, folder: str) -> None:
        """Continue from what `save` wrote, bit for bit on CPU. The reference stays the model of the start."""
        if self.critic is not None:
            self.critic.load(str(Path(folder, "critic")))
        self.load_checkpoint(folder)

    def describe(self) -> dict[str, Any]:
        """Process, threads, parameters: for the run record."""
        return {
            "pid": os.getpid(),
            "threads": torch.get_num_threads(),
            "parameters": sum(p.numel() for p in self.engine.module.parameters()),
            "engine": f"{type(self.engine).__module__}.{type(self.engine).__name__}",
        }


def as_trained(path: Path) -> None:
    """What verl writes into a model's config.json beside the truth."""
    config = json.loads(path.read_text())
    # verl writes bfloat16 here whatever the weights are in, and transformers would load them so
    config.pop("torch_dtype", None)
    config["dtype"] = "float32"
    # how this run computes attention is no property of the model
    for name in ("attn_implementation", "_attn_implementation"):
        config.pop(name, None)
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
