"""The critic's engine: one value per response token, read where that token is predicted, so before it is known."""

from __future__ import annotations

import torch
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithValueHead

from agentrl.engine.planned_engine import VENDOR, PlannedEngine
from agentrl.engine.training_batches import MicroBatch


@EngineRegistry.register(model_type="value_model", backend=["fsdp2"], device=["cpu", "cuda"], vendor=VENDOR)
class ValueEngine(PlannedEngine, FSDPEngineWithValueHead):
    """A causal language model's layers under a head of one output (transformers' token classification).

    The new head starts at zero: every value is 0 before the first update, whatever the seed and the model.
    """

    def head(self) -> torch.nn.Module:
        found: torch.nn.Module = self.module.score
        return found

    def _build_module(self) -> torch.nn.Module:
        # verl's way to a value model wants flash-attention, or else TRL; its way to a language model takes the class
        # from the architecture that the configuration names, and any attention.
        hf_config = self.model_config.hf_config
        hf_config.num_labels = 1
        hf_config.classifier_dropout = 0.0
        kept = list(hf_config.architectures)
        hf_config.architectures = [kept[0].replace("ForCausalLM", "ForTokenClassification")]
        self.model_config.model_type = "language_model"
        try:
            module: torch.nn.Module = super()._build_module()
        finally:
            self.model_config.model_type = "value_model"
        if kept[0] != hf_config.architectures[0] and not module.score.weight.is_meta:
            torch.nn.init.zeros_(module.score.weight)
            torch.nn.init.zeros_(module.score.bias)
        return module

    def response_outputs(self, batch: MicroBatch, temperature: float = 1.0) -> dict[str, torch.Tensor]:
        """values, float32 [B, R], zero beyond a row's response. The temperature is for other engines."""
        return {"values": self.spread(batch, self.head_outputs(batch)[:, 0])}
