"""The policy's engine: log-probs and entropy of response tokens; everything else is `PlannedEngine` and verl's."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from verl.utils.torch_functional import entropy_from_logits, entropy_from_logits_with_chunking
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp.transformer_impl import FSDPEngineWithLMHead

from agentrl.engine.planned_engine import VENDOR, PlannedEngine
from agentrl.engine.training_batches import MicroBatch

ENTROPY_CHUNK = 2048


@EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device=["cpu", "cuda"], vendor=VENDOR)
class ResponseEngine(PlannedEngine, FSDPEngineWithLMHead):
    """A causal language model."""

    def head(self) -> torch.nn.Module:
        found: torch.nn.Module = self.module.get_output_embeddings()
        return found

    def response_outputs(
        self, batch: MicroBatch, temperature: float, entropy: bool = True, entropy_gradient: bool = False
    ) -> dict[str, torch.Tensor]:
        """log_probs and (on request) entropy, float32 [B, R], zero beyond a row's response."""
        logits = self.head_outputs(batch)
        labels = torch.tensor(batch.ids.flat[batch.targets], device=logits.device)
        if temperature != 1:
            logits = logits / temperature
        outputs = {"log_probs": -F.cross_entropy(logits, labels, reduction="none")}
        if entropy_gradient:
            outputs["entropy"] = entropy_from_logits(logits)
        elif entropy:
            with torch.no_grad():
                outputs["entropy"] = entropy_from_logits_with_chunking(logits.detach(), ENTROPY_CHUNK)
        return {name: self.spread(batch, value) for name, value in outputs.items()}
