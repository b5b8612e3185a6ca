"""The policy loss: clipped, with one global denominator per optimiser step.

    J = agg_t [ min(r_t A_t, clip(r_t, 1 - clip_low, 1 + clip_high) A_t) ],   r = pi / pi_old
    for A_t < 0 the objective is bounded below by c A_t (dual clip, Ye et al. 2020)
    loss = -J + kl_coef agg_t[KL(pi, reference)] - entropy_coef agg_t[H]

`agg` sums over the micro-batch and divides by counts of the whole mini-batch over all workers, so that micro-batches
and workers add up to the same gradient however the rows are split.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from verl.trainer.ppo.core_algos import agg_loss, kl_penalty

from agentrl.engine.training_spec import TrainingSpec

VERL_AGGREGATION = {
    "token-mean": "token-mean",
    "turn-mean": "seq-mean-token-mean",
    "token-sum": "seq-mean-token-sum-norm",
}
# exp of more than this overflows what float32 products can hold; a ratio of e^20 is clipped in any case
LOG_RATIO_BOUND = 20.0
# `log_prob_gap_tail`: share of tokens whose probability differs by more than 10 % between rollout and trainer
TAIL = 0.1


class PolicyLoss:
    """verl's loss-function contract: `loss_fn(model_output, data, dp_group) -> (loss, metrics)`.

    model_output: log_probs, entropy: [B, R], of the current policy.
    data: response_mask, advantages: [B, R]; old_log_probs: [B, R] or None (then the current ones, detached: the first
        step on fresh data); reference_log_probs, rollout_log_probs: [B, R] or None; batch_num_tokens,
        global_batch_size, dp_size: counts of the whole mini-batch.
    metrics: detached scalars; `sum/...` add up over micro-batches and workers, `max/...` take the maximum.
    """

    def __init__(self, spec: TrainingSpec) -> None:
        self.spec = spec

    def __call__(
        self, model_output: Mapping[str, torch.Tensor], data: Mapping[str, Any], dp_group: Any = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        spec = self.spec
        log_probs, entropy = model_output["log_probs"], model_output["entropy"]
        mask, advantages = data["response_mask"], data["advantages"]
        old = data["old_log_probs"]
        if old is None:
            old = log_probs.detach()
        scale = {
            "dp_size": data["dp_size"],  # FSDP averages gradients over the workers, this undoes it
            "batch_num_tokens": max(1, data["batch_num_tokens"]),
            "global_batch_size": max(1, data["global_batch_size"]),
            "loss_scale_factor": spec.loss_constant,
        }

        def aggregate(values: torch.Tensor) -> torch.Tensor:
            return agg_loss(values, mask, VERL_AGGREGATION[spec.loss_aggregation], **scale)

        log_ratio = (log_probs - old).clamp(-LOG_RATIO_BOUND, LOG_RATIO_BOUND)
        if spec.ratio == "turn":
            log_ratio = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1)
            log_ratio = log_ratio.expand_as(log_probs)
        ratio = log_ratio.exp()
        objective, clipped, bounded = clipped_objective(
            ratio, advantages, spec.clip_low, spec.clip_high, spec.clip_ratio_c
        )
        policy_loss = -aggregate(objective)
        mean_entropy = aggregate(entropy)
        loss = policy_loss - spec.entropy_coef * mean_entropy if spec.entropy_coef else policy_loss

        metrics = {
            "sum/clip_fraction": (clipped * mask).sum(),
            "sum/dual_clip_fraction": (bounded * mask).sum(),
            "sum/approx_kl": (-log_ratio * mask).sum(),
            "sum/entropy": (entropy * mask).sum(),
            "max/ratio": (ratio * mask).max(),
            "sum/policy_loss": policy_loss,
        }
        reference = data["reference_log_probs"]
        if reference is not None:
            kl = kl_penalty(log_probs, reference, spec.kl_kind)
            if spec.kl_coef:
                loss = loss + spec.kl_coef * aggregate(kl)
            metrics["sum/kl"] = (kl * mask).sum()
        rollout = data["rollout_log_probs"]
        if rollout is not None:
            gap = (old - rollout) * mask
            metrics |= {"sum/log_prob_gap": gap.abs().sum(), "max/log_prob_gap": gap.abs().max()}
            metrics["sum/log_prob_gap_tail"] = (gap.abs() > TAIL).float().sum()
            # k3 estimate of KL(rollout, trainer), as the tokens were drawn by the rollout engine
            metrics["sum/rollout_kl"] = ((gap.exp() - 1 - gap) * mask).sum()
        metrics["sum/loss"] = loss
        return loss, {name: value.detach() for name, value in metrics.items()}


def clipped_objective(
    ratio: torch.Tensor, advantages: torch.Tensor, clip_low: float, clip_high: float, clip_ratio_c: float
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(objective, clipped, bounded), elementwise. `clipped`, `bounded`: where the clip, or the dual clip, decides."""
    plain = ratio * advantages
    limited = ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    objective = torch.minimum(plain, limited)
    floor = clip_ratio_c * advantages
    bounded = (advantages < 0) & (objective < floor)
    return torch.where(bounded, floor, objective), limited < plain, bounded
