"""What we change in vLLM's worker on a CPU: the sampler (seeds; see `vllm_sampling`) and RMSNorm's kernel."""

from __future__ import annotations

from typing import Any

import torch
from vllm.model_executor.layers.layernorm import RMSNorm

from agentrl.engine.vllm_sampling import SeededSampler


def use_fused_norm() -> None:
    """RMSNorm by vLLM's own CPU kernel, which its dispatch leaves unused: a third of the time of seven torch calls.

    Must run before the model is built.
    """
    RMSNorm.forward_cpu = _fused_norm


def _fused_norm(self: Any, x: torch.Tensor, residual: torch.Tensor | None = None) -> Any:
    weight = self.weight
    plain = (
        self.pass_weight
        and self.variance_size_override is None
        and weight.dtype == x.dtype
        and x.is_contiguous()
        and (residual is None or residual.is_contiguous())
    )
    if not plain:
        return self.forward_native(x, residual)
    if residual is None:
        out = torch.empty_like(x)
        torch.ops._C.rms_norm(out, x, weight.data, self.variance_epsilon)
        return out
    torch.ops._C.fused_add_rms_norm(x, residual, weight.data, self.variance_epsilon)
    return x, residual


def use_seeded_sampler(model_runner: Any) -> None:
    model_runner.sampler = SeededSampler(model_runner.sampler)
