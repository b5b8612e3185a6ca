"""One rank of the trainer: verl's `TrainingWorker` holding the actor and, if wanted, the frozen reference."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from verl.workers.engine import EngineRegistry
from verl.workers.engine_workers import TrainingWorker as VerlTrainingWorker

from agentrl.engine import training_engine, verl_configs
from agentrl.engine.loss import PolicyLoss
from agentrl.engine.training_batches import PADDING_ROW, MicroBatch
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
            self.engine.schedule = {
                "schedule": spec.lr_schedule,
                "warmup_steps": spec.warmup_steps,
                "total_steps": spec.total_steps,
            }
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
        if spec.shares_prefixes:
            self.engine.check_prefix_tree()
        self.set_loss_fn(PolicyLoss(spec))

    def row_log_probs(self, plan: WorkerPlan, model: str, temperature: float) -> list[tuple[int, np.ndarray]]:
        """(row, float32[response tokens]) of this worker's rows."""
        found: list[tuple[int, np.ndarray]] = []
        for mini in plan.mini_batches:
            inferred = self._infer(mini.micro_batches, model, temperature)
            for micro, values in zip(mini.micro_batches, inferred, strict=True):
                for k, row in enumerate(micro.rows):
                    if row != PADDING_ROW:
                        found.append((int(row), values[k, : micro.response_lengths[k]].cpu().numpy()))
        return found

    def _infer(self, micro_batches: list[MicroBatch], model: str, temperature: float) -> list[torch.Tensor]:
        engine = self.reference if model == "reference" else self.engine
        with torch.no_grad(), engine.eval_mode():
            return [engine.response_outputs(m, temperature, entropy=False)["log_probs"] for m in micro_batches]

    def update(self, plan: WorkerPlan, temperature: float) -> dict[str, float]:
        """One step of optimiser and schedule per mini-batch of the plan. Metrics are over all workers."""
        start = time.perf_counter()
        minis = [mini.micro_batches for mini in plan.mini_batches]
        reference = [self._reference_log_probs(micros, temperature) for micros in minis]
        # The policy that acted is the one before the first step. There its log-probs are those of the loss's own
        # forward; for the later steps they are computed now, before the weights move.
        old = [[None] * len(minis[0])] + [self._infer(micros, "actor", temperature) for micros in minis[1:]]
        prepared = time.perf_counter()
        totals: dict[str, torch.Tensor] = {}
        norms, skipped = [], 0
        lr = self.engine.lr_scheduler.get_last_lr()[0]
        with self.engine.train_mode():
            for mini, old_rows, reference_rows in zip(plan.mini_batches, old, reference, strict=True):
                counts = {
                    "batch_num_tokens": mini.tokens,
                    "global_batch_size": mini.rows,
                    "dp_size": self.engine.get_data_parallel_size(),
                }
                step = self._losses(mini.micro_batches, old_rows, reference_rows, temperature, counts, totals)
                norm, taken = self.engine.train_on(step, len(mini.micro_batches))
                self.engine.lr_scheduler_step()
                norms.append(norm)
                skipped += not taken
        tokens = sum(mini.tokens for mini in plan.mini_batches)
        metrics = self._reduce(totals, tokens, len(plan.mini_batches))
        finite = [n for n in norms if np.isfinite(n)]
        return metrics | {
            "grad_norm": float(np.mean(finite)) if finite else float("nan"),
            "grad_norm_max": max(finite, default=float("nan")),
            "learning_rate": lr,
            "optimizer_steps": len(norms) - skipped,
            "skipped_steps": skipped,
            "micro_batches": sum(len(m) for m in minis),
            "tokens": tokens,
            "rows": sum(mini.rows for mini in plan.mini_batches),
            "seconds_log_probs": prepared - start,
            "seconds_steps": time.perf_counter() - prepared,
        }

    def _reference_log_probs(self, micros: list[MicroBatch], temperature: float) -> list[torch.Tensor | None]:
        if all(m.reference_log_probs is not None for m in micros):
            return [self._tensor(m.reference_log_probs) for m in micros]
        if self.reference is None or not self.spec.kl_coef:
            return [None] * len(micros)
        return list(self._infer(micros, "reference", temperature))

    def _losses(
        self,
        micros: list[MicroBatch],
        old: list[torch.Tensor | None],
        reference: list[torch.Tensor | None],
        temperature: float,
        counts: dict[str, int],
        totals: dict[str, torch.Tensor],
    ) -> Iterator[Callable[[], torch.Tensor]]:
        """The mini-batch's losses, to be built one at a time; their metrics add up in `totals`."""

        def build(micro: MicroBatch, old_rows: Any, reference_rows: Any) -> torch.Tensor:
            outputs = self.engine.response_outputs(micro, temperature, entropy_gradient=self.spec.entropy_coef > 0)
            data = counts | {
                "response_mask": self._tensor(micro.loss_mask),
                "advantages": self._tensor(micro.advantages),
                "old_log_probs": old_rows,
                "reference_log_probs": reference_rows,
                "rollout_log_probs": self._tensor(micro.rollout_log_probs),
            }
            loss, metrics = self.loss_fn(outputs, data, self.engine.get_data_parallel_group())
            for name, value in metrics.items():
                if name not in totals:
                    totals[name] = value
                else:
                    join = torch.add if name.startswith("sum/") else torch.maximum
                    totals[name] = join(totals[name], value)
            return loss

        for row in zip(micros, old, reference, strict=True):
            yield partial(build, *row)

    def _reduce(self, totals: dict[str, torch.Tensor], tokens: int, steps: int) -> dict[str, float]:
        """Over all workers: losses as the mean of the steps, the other sums per token, maxima as they are."""
        group = self.engine.get_data_parallel_group()
        size = self.engine.get_data_parallel_size()
        metrics: dict[str, float] = {}
        for kind, op in (("sum/", dist.ReduceOp.SUM), ("max/", dist.ReduceOp.MAX)):
            names = sorted(name for name in totals if name.startswith(kind))
            values = torch.stack([totals[name] for name in names]).double()
            dist.all_reduce(values, op=op, group=group)
            for name, value in zip(names, values.tolist(), strict=True):
                short = name.removeprefix(kind)
                if kind == "max/":
                    metrics[f"{short}_max"] = value
                elif short in ("loss", "policy_loss"):  # they carry dp_size, which undoes FSDP's mean over workers
                    metrics[short] = value / size / steps
                else:
                    metrics[short] = value / max(1, tokens)
        return metrics

    def _tensor(self, values: np.ndarray | None) -> torch.Tensor | None:
        return None if values is None else torch.tensor(values, device=self.device_name)

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
        """Shards, optimiser, schedule and RNG in `folder`, the Hugging Face model in `folder`/huggingface."""
        self.save_checkpoint(folder)
        if self.rank == 0:
            config_path = Path(folder, "huggingface", "config.json")
            config = json.loads(config_path.read_text())
            # verl writes bfloat16 here whatever the weights are in, and transformers would load them so
            config.pop("torch_dtype", None)
            config["dtype"] = "float32"
            # how this run computes attention is no property of the model
            for name in ("attn_implementation", "_attn_implementation"):
                config.pop(name, None)
            config_path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
        dist.barrier()

    def load(self, folder: str) -> None:
        """Continue from what `save` wrote, bit for bit on CPU. The reference stays the model of the start."""
        self.load_checkpoint(folder)

    def describe(self) -> dict[str, Any]:
        """Process, threads, parameters: for the run record."""
        return {
            "pid": os.getpid(),
            "threads": torch.get_num_threads(),
            "parameters": sum(p.numel() for p in self.engine.module.parameters()),
            "engine": f"{training_engine.ResponseEngine.__module__}.{type(self.engine).__name__}",
        }
