"""What our two engines change in verl's FSDP engine: a head on chosen positions only, our micro-batches, our steps.

verl's engines apply the model's head at every position and keep what belongs to the response. Prompts are ten times as
long as responses here, so the head gets the hidden states of the chosen positions alone (a forward pre-hook on the
head: the model's own code is untouched, packed and padded inputs alike).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from verl.utils.device import get_device_id
from verl.utils.fsdp_utils import fsdp2_clip_grad_norm_

from agentrl.engine.training_attention import PrefixTree
from agentrl.engine.training_batches import MicroBatch
from agentrl.engine.training_schedule import factor

# verl takes the engine class by (device, vendor) and reads the vendor from VERL_ENGINE_VENDOR when that is set.
VENDOR = "agentrl"


class PlannedEngine:
    """Mixed in before one of verl's FSDP engines, which gives module, optimiser, modes, checkpoints."""

    module: Any
    optimizer: Any
    lr_scheduler: Any
    engine_config: Any
    optimizer_config: Any
    get_data_parallel_group: Any
    _autocast_dtype: torch.dtype
    _gradient_sync_context: Any
    _selected: torch.Tensor | None = None
    # arguments of `factor`; set before `initialize`, as verl's optimiser settings know two schedules only
    schedule: dict[str, Any] = {"schedule": "constant", "warmup_steps": 0, "total_steps": 1}

    def head(self) -> torch.nn.Module:
        """The module that turns hidden states into the outputs."""
        raise NotImplementedError

    def initialize(self) -> None:
        super().initialize()  # type: ignore[misc]
        self.head().register_forward_pre_hook(self._keep_selected)

    def _keep_selected(self, head: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor] | None:
        if self._selected is None:
            return None
        hidden = inputs[0]
        return (hidden.reshape(-1, hidden.shape[-1])[self._selected],)

    def forward_step(self, micro_batch: MicroBatch, loss_function: Any, forward_only: bool) -> tuple[Any, dict]:
        raise NotImplementedError("use response_outputs and train_on: this engine takes agentrl's micro-batches")

    def head_outputs(self, batch: MicroBatch) -> torch.Tensor:
        """float32[N, outputs of the head], at the positions that predict the response tokens (`batch.sources`)."""
        device = torch.device(get_device_id())
        ids = torch.tensor(batch.ids, device=device)
        sources = torch.tensor(batch.sources, device=device)
        inputs: dict[str, Any] = {"input_ids": ids}
        if batch.nodes is not None:
            tree = PrefixTree(torch.tensor(batch.nodes, device=device), torch.tensor(batch.first, device=device))
            inputs = {"input_ids": ids.flatten()[tree.first][None], "prefix_tree": tree}
            inputs["position_ids"] = (tree.first % ids.shape[1])[None]
            sources = tree.nodes.flatten()[sources]
        elif self.engine_config.use_remove_padding:
            # All rows in one; attention keeps them apart by the positions that start again at 0.
            columns = torch.arange(ids.shape[1], device=device)
            kept = columns < torch.tensor(batch.lengths, device=device)[:, None]
            inputs = {"input_ids": ids[kept][None], "position_ids": columns.expand_as(ids)[kept][None]}
            sources = (kept.flatten().cumsum(0) - 1)[sources]
        # else: padding is on the right, where causal attention never looks: no mask, the fast kernel applies
        self._selected = sources
        try:
            with self._autocast(device):
                logits = self.module(**inputs, attention_mask=None, use_cache=False).logits
        finally:
            self._selected = None
        logits = logits.reshape(-1, logits.shape[-1])
        if logits.shape[0] != len(batch.sources):
            raise RuntimeError(
                f"the model returned {logits.shape[0]} rows of outputs for {len(batch.sources)} response tokens: "
                f"{type(self.module).__name__} does not pass hidden states to its head in the usual way"
            )
        return logits.float()

    def spread(self, batch: MicroBatch, values: torch.Tensor) -> torch.Tensor:
        """[N] -> [B, R], zero beyond a row's response."""
        responses = torch.tensor(batch.response_lengths, device=values.device)
        real = torch.arange(batch.loss_mask.shape[1], device=values.device) < responses[:, None]
        return torch.zeros(real.shape, device=values.device).masked_scatter(real, values)

    def check_prefix_tree(self) -> None:
        """ValueError for a model whose tokens look back in another way than over all of their row."""
        kinds = set(getattr(self.module.config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"}:
            raise ValueError(
                "share_prefixes=True needs full attention in every layer and this model has "
                f"{', '.join(sorted(kinds))}: set share_prefixes=False"
            )

    def _autocast(self, device: torch.device) -> torch.autocast:
        dtype = self._autocast_dtype
        return torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32)

    def train_on(self, losses: Iterable[Callable[[], torch.Tensor]], count: int) -> tuple[float, bool]:
        """One optimiser step over `count` micro-batch losses, each built when it is its turn.

        Returns (gradient norm before clipping, whether the step was taken). A loss or gradient that is not finite
        leaves weights and optimiser as they are, on every worker.
        """
        self.optimizer.zero_grad()
        finite = None
        for i, build in enumerate(losses):
            with self._gradient_sync_context(is_last_micro_batch=i == count - 1):
                loss = build()
                loss.backward()
            ok = torch.isfinite(loss.detach())
            finite = ok if finite is None else finite & ok
        assert finite is not None
        flag = finite.float()
        torch.distributed.all_reduce(flag, op=torch.distributed.ReduceOp.MIN, group=self.get_data_parallel_group())
        norm = fsdp2_clip_grad_norm_(self.module.parameters(), max_norm=self.optimizer_config.clip_grad)
        if isinstance(norm, DTensor):
            norm = norm.full_tensor()
        value = norm.item()
        taken = bool(flag.item() > 0) and math.isfinite(value)
        if taken:
            self.optimizer.step()
        self.optimizer.zero_grad()
        return value, taken

    def _build_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
        return torch.optim.lr_scheduler.LambdaLR(optimizer, partial(factor, **self.schedule))
