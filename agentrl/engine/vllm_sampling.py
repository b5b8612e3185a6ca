"""Seeded sampling inside vLLM's worker on CPU, by one uniform number per token instead of one per vocabulary entry.

vLLM's own seeded sampling keeps a random generator per request, draws a whole row of noise from each, and, on CPU,
fails when a seeded prompt is prefilled in parts ("CPU Generator does not use offset"). Here the number is a hash of
(seed, position in the response), and the token is where the cumulative distribution passes it. So a request's tokens
do not depend on its neighbours, on preemption, or on how its prompt was cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from vllm.v1.outputs import LogprobsTensors, SamplerOutput
from vllm.v1.sample.logits_processor import LogitsProcessor
from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality
from vllm.v1.sample.sampler import Sampler

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.config import VllmConfig
    from vllm.v1.sample.metadata import SamplingMetadata

SEED = "agentrl_seed"  # the key in SamplingParams.extra_args
GREEDY_BELOW = 1e-5  # temperatures under it mean greedy, as in vLLM
BLOCK = 64


def uniforms(seeds: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """float64 in [0, 1) for each pair of uint64 seed and position: two rounds of the splitmix64 finaliser."""
    with np.errstate(over="ignore"):
        state = _mix(seeds + np.uint64(0x9E3779B97F4A7C15))
        state = _mix(state + (positions + np.uint64(1)) * np.uint64(0xD1B54A32D192ED03))
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(x: np.ndarray) -> np.ndarray:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


class SeedBook(LogitsProcessor):
    """Knows seed and position of every request in vLLM's batch. It changes no logits; the sampler below asks it."""

    def __init__(self, vllm_config: VllmConfig, device: torch.device, is_pin_memory: bool) -> None:
        rows = vllm_config.scheduler_config.max_num_seqs
        self._seeds = np.zeros(rows, dtype=np.uint64)
        self._outputs: list[list[int]] = [[] for _ in range(rows)]

    @classmethod
    def validate_params(cls, sampling_params: SamplingParams) -> None:
        """Nothing to refuse."""

    def is_argmax_invariant(self) -> bool:
        return True

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        return logits

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        if batch_update is None:
            return
        seeds, outputs = self._seeds, self._outputs
        for row, params, _, output_ids in batch_update.added:
            seeds[row] = (params.extra_args or {}).get(SEED, 0) & 0xFFFFFFFFFFFFFFFF
            outputs[row] = output_ids
        for source, target, direction in batch_update.moved:
            if direction == MoveDirectionality.SWAP:
                seeds[[source, target]] = seeds[[target, source]]
                outputs[source], outputs[target] = outputs[target], outputs[source]
            else:
                seeds[target], outputs[target] = seeds[source], outputs[source]

    def uniforms(self, rows: int) -> torch.Tensor:
        """float64[rows, 1]"""
        positions = np.array([len(output) for output in self._outputs[:rows]], dtype=np.uint64)
        return torch.from_numpy(uniforms(self._seeds[:rows], positions)).unsqueeze(1)


class SeededSampler(Sampler):
    """Temperature, top-p, then one draw by inversion. Log-probs are those of the distribution drawn from."""

    def __init__(self, like: Sampler) -> None:
        super().__init__(like.logprobs_mode)

    def forward(
        self,
        logits: torch.Tensor,
        sampling_metadata: SamplingMetadata,
        predict_bonus_token: bool = False,
        logprobs_mode_override: Any = None,
    ) -> SamplerOutput:
        processors = sampling_metadata.logitsprocs.argmax_invariant
        book = next(p for p in processors if isinstance(p, SeedBook))
        tokens, log_probs = draw(
            logits.to(torch.float32), sampling_metadata.temperature, sampling_metadata.top_p, book.uniforms(len(logits))
        )
        tokens = tokens.to(torch.int32)
        asked = sampling_metadata.max_num_logprobs is not None
        return SamplerOutput(
            sampled_token_ids=tokens,
            logprobs_tensors=LogprobsTensors(tokens, log_probs, torch.ones(len(tokens), dtype=torch.int64))
            if asked
            else None,
        )


def draw(
    logits: torch.Tensor, temperature: torch.Tensor | None, top_p: torch.Tensor | None, uniform: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """int64[rows, 1] tokens and float32[rows, 1] log-probs.

    logits: float32[rows, vocabulary]. temperature, top_p: float32[rows], or None (all greedy; all 1). A row's result
    depends on that row only, to the last bit.
    """
    if temperature is None:
        greedy = torch.ones(len(logits), dtype=torch.bool)
    else:
        greedy = temperature < GREEDY_BELOW
        if not bool((temperature == 1.0).all()):
            logits = logits / torch.where(greedy, 1.0, temperature).unsqueeze(1)
    top = logits.amax(-1, keepdim=True)
    weights = (logits - top).exp_()
    if top_p is not None and bool((top_p < 1.0).any()):
        weights = _nucleus(weights, top_p.unsqueeze(1))
    if weights.shape[1] % BLOCK:
        weights = torch.nn.functional.pad(weights, (0, -weights.shape[1] % BLOCK))
    weights = weights.view(len(weights), -1, BLOCK)

    # In two stages, so that only sums of blocks and one block per row are accumulated in double precision.
    sums = weights.sum(-1).double()
    ends = sums.cumsum(-1)
    total = ends[:, -1:]
    target = torch.minimum(uniform * total, torch.nextafter(total, torch.zeros_like(total)))
    block = (ends <= target).sum(-1, keepdim=True)
    inside = weights.gather(1, block.unsqueeze(2).expand(-1, 1, BLOCK)).squeeze(1).double().cumsum(-1)
    rest = target - (ends.gather(1, block) - sums.gather(1, block))
    last = (inside < inside[:, -1:]).sum(-1, keepdim=True)  # of those with any probability
    tokens = block * BLOCK + torch.minimum((inside <= rest).sum(-1, keepdim=True), last)
    if bool(greedy.any()):
        tokens[greedy] = logits[greedy].argmax(-1, keepdim=True)
    log_probs = (logits.gather(1, tokens) - top).double() - total.log()
    return tokens, log_probs.float()


def _nucleus(weights: torch.Tensor, top_p: torch.Tensor) -> torch.Tensor:
    """The smallest set of the likeliest tokens that has at least `top_p` of the probability; the others get 0."""
    ordered, order = weights.sort(dim=-1, descending=True, stable=True)
    before = ordered.double().cumsum(-1) - ordered
    outside = before >= top_p.double() * ordered.sum(-1, keepdim=True, dtype=torch.float64)
    outside[:, 0] = False
    return weights.scatter(1, order, ordered.masked_fill(outside, 0.0))
