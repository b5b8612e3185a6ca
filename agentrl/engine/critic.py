"""The critic of PPO: a value model beside the actor in the same processes, with an optimiser of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from verl.trainer.ppo.core_algos import agg_loss
from verl.workers.engine import EngineRegistry

from agentrl.engine import value_engine, verl_configs  # noqa: F401  (registers the engine)
from agentrl.engine.learner import Learner
from agentrl.engine.training_plan import WorkerPlan
from agentrl.engine.training_spec import TrainingSpec


class ValueLoss:
    """0.5 mean over tokens of max((V - G)^2, (V_old + clip(V - V_old, -c, c) - G)^2); c None: the first term alone.

    The mean is over the tokens of the whole mini-batch on all workers, as in `PolicyLoss`. model_output: values [B, R];
    data: response_mask, returns [B, R]; old_values [B, R] or None (then the current ones: the first step).
    """

    def __init__(self, clip: float | None) -> None:
        self.clip = clip

    def __call__(
        self, model_output: Mapping[str, torch.Tensor], data: Mapping[str, Any], dp_group: Any = None
    ) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        values, mask, returns = model_output["values"], data["response_mask"], data["returns"]
        error = (values - returns) ** 2
        clipped = torch.zeros_like(mask)
        old = data["old_values"]
        if self.clip is not None and old is not None:
            bounded = (old + (values - old).clamp(-self.clip, self.clip) - returns) ** 2
            clipped = (bounded > error).float()
            error = torch.maximum(error, bounded)
        loss = 0.5 * agg_loss(
            error, mask, "token-mean", dp_size=data["dp_size"], batch_num_tokens=max(1, data["batch_num_tokens"])
        )
        metrics = {
            "sum/loss": loss,
            "sum/clip_fraction": (clipped * mask).sum(),
            "sum/value": (values * mask).sum(),
            "sum/return": (returns * mask).sum(),
            "sum/squared_error": ((values - returns) ** 2 * mask).sum(),
        }
        return loss, {name: value.detach() for name, value in metrics.items()}


class Critic:
    """One rank of it. All methods are called on every rank at once."""

    def __init__(self, spec: TrainingSpec) -> None:
        own = spec.for_critic()
        engine = EngineRegistry.new(
            model_type="value_model",
            backend=verl_configs.STRATEGY,
            model_config=verl_configs.model_config(own, value_model=True),
            engine_config=verl_configs.engine_config(own),
            optimizer_config=verl_configs.optimizer_config(own),
            checkpoint_config=verl_configs.checkpoint_config(),
        )
        engine.schedule = verl_configs.schedule(own)
        engine.initialize()
        if own.shares_prefixes:
            engine.check_prefix_tree()
        assert spec.critic is not None
        self.learner = Learner(engine, "values", ValueLoss(spec.critic.value_clip))

    def values(self, plan: WorkerPlan) -> list[tuple[int, np.ndarray]]:
        """(row, float32[response tokens]) of this rank's rows: the value before each token is known."""
        return self.learner.rows(plan, self.learner.engine.response_outputs)

    def update(self, plan: WorkerPlan) -> dict[str, float]:
        """One optimiser step per mini-batch towards the batch's `returns`."""
        outputs = self.learner.engine.response_outputs
        return self.learner.update(plan, outputs, outputs)

    def save(self, folder: str) -> None:
        self.learner.engine.save_checkpoint(folder)

    def load(self, folder: str) -> None:
        self.learner.engine.load_checkpoint(folder, del_local_after_load=False)
