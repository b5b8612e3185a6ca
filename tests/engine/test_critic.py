"""The critic: its values against plain transformers, its steps against plain torch, its checkpoint."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training_local import LocalTrainer, random_batch, spec_for

from agentrl.engine.training_spec import CriticSpec

pytestmark = pytest.mark.engine
STEP = 0.05


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    from tiny import tiny_model

    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def batch() -> Any:
    made = random_batch()
    rng = np.random.default_rng(3)
    return replace(made, advantages=None, returns=[rng.normal(2, 3, len(r)).tolist() for r in made.response_ids])


def trainer_with(model: str, sgd: bool = True, head: bool = True, **changes: Any) -> LocalTrainer:
    """head: replace the zeros of the new head by the same random numbers each time, so that there is something to see."""
    import torch

    critic = CriticSpec(model, learning_rate=1e-3, total_steps=10, value_clip=changes.pop("value_clip", 0.5))
    trainer = LocalTrainer(spec_for(model, critic=critic, reference=False, kl_coef=0.0, **changes))
    module = trainer.worker.critic.learner.engine.module
    if head:
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            module.score.weight.to_local().copy_(torch.randn(module.score.weight.shape, generator=generator))
            module.score.bias.to_local().fill_(0.3)
    if sgd:
        trainer.worker.critic.learner.engine.optimizer = torch.optim.SGD(module.parameters(), lr=STEP)
    return trainer


def plain_critic(model: str, trainer: LocalTrainer) -> Any:
    """transformers' token classification with the same weights."""
    import torch
    from transformers import AutoModelForTokenClassification

    plain = AutoModelForTokenClassification.from_pretrained(model, num_labels=1, dtype=torch.float32).eval()
    module = trainer.worker.critic.learner.engine.module
    plain.load_state_dict({name: weight.full_tensor() for name, weight in module.state_dict().items()})
    return plain


def plain_values(plain: Any, prompt: list[int], response: list[int]) -> Any:
    import torch

    return plain(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1, 0]


def weights(trainer: LocalTrainer) -> dict[str, np.ndarray]:
    module = trainer.worker.critic.learner.engine.module
    return {name: p.detach().full_tensor().numpy().copy() for name, p in module.named_parameters()}


def test_values_are_zero_before_the_first_update(model, batch) -> None:
    values = trainer_with(model, head=False).values(batch)
    assert [len(v) for v in values] == [len(r) for r in batch.response_ids]
    assert not any(v.any() for v in values)


@pytest.mark.parametrize(
    "layout", [{"share_prefixes": True}, {"share_prefixes": False}, {"share_prefixes": False, "remove_padding": True}]
)
def test_values_are_those_before_each_token(layout, model, batch) -> None:
    import torch

    trainer = trainer_with(model, **layout)
    plain = plain_critic(model, trainer)
    for i, values in enumerate(trainer.values(batch)):
        with torch.no_grad():
            expected = plain_values(plain, batch.prompt_ids[i], batch.response_ids[i])
        np.testing.assert_allclose(values, expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("cut", [{}, {"max_tokens_per_micro_batch": 64}, {"micro_batch_size": 1}])
def test_an_update_is_the_step_of_the_squared_error(cut, model, batch) -> None:
    import torch

    trainer = trainer_with(model, **cut)
    plain = plain_critic(model, trainer)
    optimizer = torch.optim.SGD(plain.parameters(), lr=STEP)
    tokens = sum(len(r) for r in batch.response_ids)
    error = sum(
        ((plain_values(plain, p, r) - torch.tensor(g)) ** 2).sum()
        for p, r, g in zip(batch.prompt_ids, batch.response_ids, batch.returns, strict=True)
    )
    (0.5 * error / tokens).backward()
    torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
    optimizer.step()
    metrics = trainer.update_critic(batch)
    found, expected = weights(trainer), {name: p.detach().numpy() for name, p in plain.named_parameters()}
    assert found.keys() == expected.keys()
    assert max(np.abs(found[n] - expected[n]).max() for n in found) < 1e-5
    assert metrics["squared_error"] == pytest.approx(float(error) / tokens, rel=1e-5)
    assert metrics["loss"] == pytest.approx(0.5 * float(error) / tokens, rel=1e-5)


def test_the_critic_learns_and_the_actor_stays(model, batch) -> None:
    trainer = trainer_with(model, sgd=False, head=False)
    before = trainer.weights()
    errors = [trainer.update_critic(batch, mini_batches=2)["squared_error"] for _ in range(40)]
    assert errors[-1] < 0.5 * errors[0]
    after = trainer.weights()
    assert all((before[name] == after[name]).all() for name in before)


def test_value_loss_is_verls() -> None:
    import torch
    from training_local import use_cpu_platform

    use_cpu_platform()
    from verl.trainer.ppo.core_algos import compute_value_loss

    from agentrl.engine.critic import ValueLoss

    generator = torch.Generator().manual_seed(0)
    values, old, returns = (3 * torch.randn(5, 7, generator=generator) for _ in range(3))
    mask = (torch.rand(5, 7, generator=generator) > 0.3).float()
    expected, fraction = compute_value_loss(values, returns, old, mask, 0.5, batch_num_tokens=int(mask.sum()))
    data = {"response_mask": mask, "returns": returns, "old_values": old, "dp_size": 1}
    loss, metrics = ValueLoss(0.5)({"values": values}, data | {"batch_num_tokens": int(mask.sum())})
    assert float(loss) == pytest.approx(float(expected), rel=1e-6)
    assert float(metrics["sum/clip_fraction"] / mask.sum()) == pytest.approx(float(fraction))
    free, _ = ValueLoss(None)({"values": values}, data | {"batch_num_tokens": int(mask.sum())})
    assert float(free) == pytest.approx(float((0.5 * (values - returns) ** 2 * mask).sum() / mask.sum()), rel=1e-6)


def test_a_checkpoint_goes_on_bit_for_bit_and_loads_in_transformers(model, batch, tmp_path) -> None:
    import torch
    from transformers import AutoModelForTokenClassification

    trainer = trainer_with(model, sgd=False)
    trainer.update_critic(batch)
    trainer.worker.save(str(tmp_path))
    trainer.update_critic(batch)
    other = trainer_with(model, sgd=False, head=False)
    other.worker.load(str(tmp_path))
    loaded = AutoModelForTokenClassification.from_pretrained(tmp_path / "critic" / "huggingface").eval()
    assert loaded.dtype == torch.float32
    with torch.no_grad():
        expected = plain_values(loaded, batch.prompt_ids[0], batch.response_ids[0])
    np.testing.assert_allclose(other.values(batch)[0], expected.numpy(), rtol=1e-5, atol=1e-5)
    other.update_critic(batch)
    ours, theirs = weights(trainer), weights(other)
    assert all((ours[name] == theirs[name]).all() for name in ours)
