"""For tests of the trainer: one rank in this process (no Ray), random rows, and a plain update to compare with."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import numpy as np

from agentrl.engine.training_group import environment_variables
from agentrl.engine.training_plan import plan
from agentrl.engine.training_spec import TrainingBatch, TrainingSpec


def random_batch(rows: int = 24, seed: int = 0, vocabulary: int = 300, shared: bool = True) -> TrainingBatch:
    """Ragged rows, half of which begin alike; with `shared`, every third repeats a prompt, some a response too."""
    rng = np.random.default_rng(seed)
    common = rng.integers(3, vocabulary, 6).tolist()
    prompts: list[list[int]] = []
    responses: list[list[int]] = []
    for i in range(rows):
        again = shared and i % 3 == 2
        new = (common if i % 2 else []) + rng.integers(3, vocabulary, rng.integers(4, 34)).tolist()
        prompts.append(prompts[-1] if again else new)
        copy = again and i % 6 == 5
        responses.append(responses[-1] if copy else rng.integers(3, vocabulary, rng.integers(1, 12)).tolist())
    advantages = rng.normal(size=rows)
    advantages[1:2] = 0.0
    rollout = [rng.normal(-5, 1, size=len(r)).tolist() for r in responses]
    return TrainingBatch(prompts, responses, advantages, rollout)


def use_cpu_platform() -> None:
    """Before the first import of verl in this process."""
    os.environ.update(environment_variables(TrainingSpec(model_path="none")))
    from agentrl.engine import cpu_platform

    cpu_platform.activate()


class LocalTrainer:
    """The calls of TrainingGroup on one TrainingWorker that lives in this process.

    sgd: plain gradient descent with this step instead of AdamW. AdamW turns the rounding of a gradient that is zero
    but for rounding (a key bias has one) into a step of its learning rate, and does not see a wrong denominator.
    """

    def __init__(self, spec: TrainingSpec, sgd: float | None = None) -> None:
        use_cpu_platform()
        os.environ.update({"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"})
        os.environ["WG_BACKEND"] = "ray"
        from agentrl.engine.training_worker import TrainingWorker

        self.spec = spec
        self.worker = TrainingWorker(spec)
        if sgd is not None:
            import torch

            self.worker.engine.optimizer = torch.optim.SGD(self.worker.engine.module.parameters(), lr=sgd)

    def _plan(self, batch: TrainingBatch, mini_batches: int) -> Any:
        spec = self.spec
        limits = spec.max_tokens_per_micro_batch, spec.micro_batch_size
        return plan(batch, 1, mini_batches, *limits, spec.shares_prefixes)[0]

    def log_probs(self, batch: TrainingBatch, model: str = "actor", temperature: float = 1.0) -> list[np.ndarray]:
        found = dict(self.worker.row_log_probs(self._plan(batch, 1), model, temperature))
        return [found[i] for i in range(len(batch))]

    def update(self, batch: TrainingBatch, mini_batches: int = 1, temperature: float = 1.0) -> dict[str, float]:
        return self.worker.update(self._plan(batch, mini_batches), temperature)

    def values(self, batch: TrainingBatch) -> list[np.ndarray]:
        found = dict(self.worker.values(self._plan(batch, 1)))
        return [found[i] for i in range(len(batch))]

    def update_critic(self, batch: TrainingBatch, mini_batches: int = 1) -> dict[str, float]:
        return self.worker.update_critic(self._plan(batch, mini_batches))

    def weights(self) -> dict[str, np.ndarray]:
        return self.worker.weights()


def spec_for(model: str, **changes: Any) -> TrainingSpec:
    defaults = TrainingSpec(
        model_path=model, learning_rate=1e-3, weight_decay=0.05, total_steps=10, kl_coef=0.05, reference=True,
        max_tokens_per_micro_batch=256, clip_high=0.28,
    )  # fmt: skip
    return replace(defaults, **changes)


def largest_difference(a: dict[str, np.ndarray], b: dict[str, np.ndarray], adamw: bool = False) -> float:
    """adamw: leave the key biases out. Attention does not depend on them, their gradient is rounding alone, and AdamW
    makes a step of its learning rate of that."""
    assert a.keys() == b.keys()
    names = [name for name in a if not (adamw and name.endswith("k_proj.bias"))]
    return max(float(np.abs(a[name] - b[name]).max()) for name in names)


def plain_log_probs(model: Any, prompt: list[int], response: list[int], temperature: float = 1.0) -> Any:
    """(log-probs, entropies) of one response, from the whole forward of one row by itself."""
    import torch

    logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1] / temperature
    log_p = torch.log_softmax(logits, -1)
    return log_p.gather(1, torch.tensor(response)[:, None])[:, 0], -(log_p.exp() * log_p).sum(-1)


def plain_updates(
    spec: TrainingSpec, batches: list[TrainingBatch], temperature: float = 1.0, sgd: float | None = None
) -> dict[str, np.ndarray]:
    """One optimiser step per batch, written row by row from the formulas; old log-probs are those before the first.

    Only what the tests need: token ratio, low_var_kl, no dual clip in reach.
    """
    import torch
    from transformers import AutoModelForCausalLM

    actor = AutoModelForCausalLM.from_pretrained(spec.model_path, dtype=torch.float32)
    reference = AutoModelForCausalLM.from_pretrained(spec.model_path, dtype=torch.float32)
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(
        actor.parameters(), lr=spec.learning_rate, betas=spec.betas, weight_decay=spec.weight_decay
    )
    if sgd is not None:
        optimizer = torch.optim.SGD(actor.parameters(), lr=sgd)
    with torch.no_grad():
        old = [
            [plain_log_probs(actor, p, r, temperature)[0] for p, r in zip(b.prompt_ids, b.response_ids, strict=True)]
            for b in batches
        ]
    for batch, old_rows in zip(batches, old, strict=True):
        masks = batch.loss_mask or [[1] * len(r) for r in batch.response_ids]
        tokens = sum(map(sum, masks))
        used = sum(any(m) for m in masks)
        total = torch.zeros(())
        for i, (prompt, response) in enumerate(zip(batch.prompt_ids, batch.response_ids, strict=True)):
            mask = torch.tensor(masks[i], dtype=torch.float32)
            log_p, entropy = plain_log_probs(actor, prompt, response, temperature)
            with torch.no_grad():
                ref = plain_log_probs(reference, prompt, response, temperature)[0]
            ratio = (log_p - old_rows[i]).exp()
            a = torch.as_tensor(batch.advantages[i], dtype=torch.float32)
            objective = torch.minimum(ratio * a, ratio.clamp(1 - spec.clip_low, 1 + spec.clip_high) * a)
            difference = ref - log_p
            kl = difference.exp() - difference - 1
            per_token = (-objective + spec.kl_coef * kl - spec.entropy_coef * entropy) * mask
            if spec.loss_aggregation == "token-mean":
                total = total + per_token.sum() / tokens
            elif spec.loss_aggregation == "turn-mean":
                total = total + per_token.sum() / mask.sum().clamp(min=1) / used
            else:
                total = total + per_token.sum() / (used * spec.loss_constant)
        optimizer.zero_grad()
        total.backward()
        torch.nn.utils.clip_grad_norm_(actor.parameters(), spec.grad_clip)
        optimizer.step()
    return {name: p.detach().numpy() for name, p in actor.named_parameters()}
