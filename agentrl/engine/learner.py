"""A model of one rank with its loss: what it infers, and the optimiser steps of a plan. The actor's and the critic's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from agentrl.engine.training_batches import PADDING_ROW, MicroBatch
from agentrl.engine.training_plan import WorkerPlan

Outputs = Callable[[MicroBatch], dict[str, torch.Tensor]]
Extra = Callable[[list[MicroBatch]], list[dict[str, Any]]]
COLUMNS = ("advantages", "returns", "rollout_log_probs")


class Learner:
    """engine: a `PlannedEngine` with its optimiser. name: of the output that the loss compares with its old values.

    loss_fn(outputs, data, group) -> (loss, metrics) as verl's; see `PolicyLoss` and `ValueLoss`.
    All methods are called on every rank at once (they contain collectives).
    """

    def __init__(self, engine: Any, name: str, loss_fn: Any) -> None:
        self.engine, self.name, self.loss_fn = engine, name, loss_fn

    def infer(self, micro_batches: Sequence[MicroBatch], outputs: Outputs) -> list[torch.Tensor]:
        """[B, R] per micro-batch, without gradients."""
        with torch.no_grad(), self.engine.eval_mode():
            return [outputs(micro)[self.name] for micro in micro_batches]

    def rows(self, plan: WorkerPlan, outputs: Outputs) -> list[tuple[int, np.ndarray]]:
        """(row, float32[response tokens]) of this rank's rows."""
        found: list[tuple[int, np.ndarray]] = []
        for mini in plan.mini_batches:
            for micro, values in zip(mini.micro_batches, self.infer(mini.micro_batches, outputs), strict=True):
                for k, row in enumerate(micro.rows):
                    if row != PADDING_ROW:
                        found.append((int(row), values[k, : micro.response_lengths[k]].cpu().numpy()))
        return found

    def update(
        self, plan: WorkerPlan, outputs: Outputs, inferred: Outputs, extra: Extra | None = None
    ) -> dict[str, float]:
        """One step of optimiser and schedule per mini-batch of the plan. Metrics are over all workers.

        outputs: with gradients; inferred: the same without; extra: more data for the loss of each micro-batch.
        """
        start = time.perf_counter()
        minis = [mini.micro_batches for mini in plan.mini_batches]
        more: list[list[dict[str, Any]]] = [extra(micros) if extra else [{} for _ in micros] for micros in minis]
        # The model that acted is the one before the first step. There its outputs are those of the loss's own
        # forward; for the later steps they are computed now, before the weights move.
        old = [[None] * len(minis[0])] + [self.infer(micros, inferred) for micros in minis[1:]]
        prepared = time.perf_counter()
        totals: dict[str, torch.Tensor] = {}
        norms, skipped = [], 0
        lr = self.engine.lr_scheduler.get_last_lr()[0]
        with self.engine.train_mode():
            for mini, old_rows, more_rows in zip(plan.mini_batches, old, more, strict=True):
                counts = {
                    "batch_num_tokens": mini.tokens,
                    "global_batch_size": mini.rows,
                    "dp_size": self.engine.get_data_parallel_size(),
                }
                data = [
                    counts | {f"old_{self.name}": before} | rest
                    for before, rest in zip(old_rows, more_rows, strict=True)
                ]
                norm, taken = self.engine.train_on(
                    self._losses(mini.micro_batches, data, outputs, totals), len(mini.micro_batches)
                )
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
            "seconds_prepare": prepared - start,
            "seconds_steps": time.perf_counter() - prepared,
        }

    def _losses(
        self, micros: list[MicroBatch], data: list[dict[str, Any]], outputs: Outputs, totals: dict[str, torch.Tensor]
    ) -> Iterator[Callable[[], torch.Tensor]]:
        """The mini-batch's losses, to be built one at a time; their metrics add up in `totals`."""

        def build(micro: MicroBatch, given: dict[str, Any]) -> torch.Tensor:
            columns = {name: self.tensor(getattr(micro, name)) for name in COLUMNS}
            given = given | columns | {"response_mask": self.tensor(micro.loss_mask)}
            loss, metrics = self.loss_fn(outputs(micro), given, self.engine.get_data_parallel_group())
            for name, value in metrics.items():
                if name not in totals:
                    totals[name] = value
                else:
                    join = torch.add if name.startswith("sum/") else torch.maximum
                    totals[name] = join(totals[name], value)
            return torch.as_tensor(loss)

        for micro, given in zip(micros, data, strict=True):
            yield partial(build, micro, given)

    def _reduce(self, totals: dict[str, torch.Tensor], tokens: int, steps: int) -> dict[str, float]:
        """Over all workers: losses as the mean of the steps, the other sums per token, maxima as they are."""
        group = self.engine.get_data_parallel_group()
        size = self.engine.get_data_parallel_size()
        metrics: dict[str, float] = {}
        for kind, op in (("sum/", dist.ReduceOp.SUM), ("max/", dist.ReduceOp.MAX)):
            names = sorted(name for name in totals if name.startswith(kind))
            if not names:
                continue
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

    def tensor(self, column: np.ndarray | None) -> torch.Tensor | None:
        from verl.utils.device import get_device_id

        return None if column is None else torch.tensor(column, device=get_device_id())
