"""One rank in this process: the numbers of the trainer against plain transformers and torch, however rows are cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from training_local import (
    LocalTrainer,
    largest_difference,
    plain_log_probs,
    plain_updates,
    random_batch,
    spec_for,
)

pytestmark = pytest.mark.engine
STEP = 0.3  # of plain gradient descent: moves weights by 1e-2
RATE = 2e-5  # of AdamW: gradients as small as their rounding move by a part of it, which stays below 1e-5


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    from tiny import tiny_model

    return tiny_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def untied(tmp_path_factory) -> str:
    from tiny import tiny_model

    return tiny_model(tmp_path_factory.mktemp("untied"), tied=False, seed=1)


@pytest.fixture(scope="module")
def batch() -> Any:
    return random_batch()


def start(model: str) -> dict[str, np.ndarray]:
    import torch
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    return {name: p.detach().numpy() for name, p in loaded.named_parameters()}


@pytest.mark.parametrize("which", ["model", "untied"])
@pytest.mark.parametrize(
    "layout", [{"share_prefixes": True}, {"share_prefixes": False}, {"share_prefixes": False, "remove_padding": True}]
)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_log_probs_are_those_of_transformers(which, layout, temperature, batch, request) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    path = request.getfixturevalue(which)
    trainer = LocalTrainer(spec_for(path, **layout))
    plain = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    for name in ("actor", "reference"):
        found = trainer.log_probs(batch, name, temperature)
        for i, values in enumerate(found):
            with torch.no_grad():
                expected = plain_log_probs(plain, batch.prompt_ids[i], batch.response_ids[i], temperature)[0]
            np.testing.assert_allclose(values, expected.numpy(), atol=1e-5)


@pytest.fixture(scope="module")
def whole(model, batch) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Two updates with all rows in one micro-batch: what every other cut must give."""
    trainer = LocalTrainer(spec_for(model, max_tokens_per_micro_batch=10**6, share_prefixes=False), sgd=STEP)
    trainer.update(batch)
    metrics = trainer.update(batch)
    return trainer.weights(), metrics


@pytest.mark.parametrize(
    "cut",
    [
        {"micro_batch_size": 1},
        {"micro_batch_size": 4},
        {"max_tokens_per_micro_batch": 90},
        {"micro_batch_size": 4, "share_prefixes": False},
        {"max_tokens_per_micro_batch": 200, "share_prefixes": False, "remove_padding": True},
        {"gradient_checkpointing": True},
    ],
    ids=str,
)
def test_the_cut_into_micro_batches_changes_nothing(cut, model, batch, whole) -> None:
    trainer = LocalTrainer(spec_for(model, **cut), sgd=STEP)
    trainer.update(batch)
    metrics = trainer.update(batch)
    weights, expected = whole
    assert largest_difference(trainer.weights(), weights) < 1e-5
    for name in ("loss", "policy_loss", "kl", "entropy", "clip_fraction", "log_prob_gap", "log_prob_gap_max"):
        assert metrics[name] == pytest.approx(expected[name], abs=1e-5), name
    assert metrics["grad_norm"] == pytest.approx(expected["grad_norm"], rel=1e-4)
    assert metrics["tokens"] == sum(map(len, batch.response_ids)) and metrics["rows"] == len(batch)


def test_padding_rows_change_nothing(model, batch, whole) -> None:
    from agentrl.engine.training_batches import PADDING_ROW, micro_batch
    from agentrl.engine.training_plan import even

    trainer = LocalTrainer(spec_for(model, max_tokens_per_micro_batch=10**6, share_prefixes=False), sgd=STEP)
    work = trainer._plan(batch, 1)
    more = even([[[0]], [[0], [1], [2]]])[0][1:]
    assert more == [[PADDING_ROW], [PADDING_ROW]], "what a worker without rows of its own gets"
    work.mini_batches[0].micro_batches += [micro_batch(batch, piece) for piece in more]
    trainer.worker.update(work, 1.0)
    metrics = trainer.worker.update(work, 1.0)
    assert largest_difference(trainer.weights(), whole[0]) < 1e-5
    assert metrics["entropy"] == pytest.approx(whole[1]["entropy"], abs=1e-5)


@pytest.mark.parametrize("sgd", [None, STEP], ids=["adamw", "sgd"])
@pytest.mark.parametrize("grad_clip", [0.1, 1e6])
@pytest.mark.parametrize("aggregation", ["token-mean", "turn-mean", "token-sum"])
def test_update_equals_the_formulas_row_by_row(aggregation, grad_clip, sgd, model, batch) -> None:
    spec = spec_for(
        model,
        loss_aggregation=aggregation,
        loss_constant=8.0,
        entropy_coef=0.01,
        grad_clip=grad_clip,
        learning_rate=RATE,
    )
    mask = [[int(i != 3 and k != 2) for k in range(len(r))] for i, r in enumerate(batch.response_ids)]
    masked = replace(batch, loss_mask=mask)
    trainer = LocalTrainer(spec, sgd)
    trainer.update(masked, temperature=0.8)
    assert largest_difference(trainer.weights(), plain_updates(spec, [masked], 0.8, sgd), adamw=sgd is None) < 1e-5
    assert largest_difference(trainer.weights(), start(model)) > 0.9 * RATE, "it learned"


def test_mini_batches_keep_the_policy_that_acted(model, batch) -> None:
    """Three optimiser steps; from the second on the ratio is to the policy of before the first."""
    spec = spec_for(model)
    trainer = LocalTrainer(spec, sgd=STEP)
    metrics = trainer.update(batch, mini_batches=3)
    parts = []
    for rows in np.array_split(np.arange(len(batch)), 3):
        pick = lambda column, rows=rows: [column[i] for i in rows]  # noqa: E731
        parts.append(type(batch)(pick(batch.prompt_ids), pick(batch.response_ids), batch.advantages[rows]))
    assert largest_difference(trainer.weights(), plain_updates(spec, parts, sgd=STEP)) < 1e-5
    assert metrics["optimizer_steps"] == 3
    assert metrics["ratio_max"] > 1.01 and metrics["approx_kl"] != 0


def test_token_advantages_reach_their_tokens(model) -> None:
    batch = random_batch(6)
    spec = spec_for(model)
    trainer = LocalTrainer(spec, sgd=STEP)
    per_token = replace(batch, advantages=[np.linspace(-1, 1, len(r)) for r in batch.response_ids])
    trainer.update(per_token)
    assert largest_difference(trainer.weights(), plain_updates(spec, [per_token], sgd=STEP)) < 1e-5


@pytest.mark.parametrize("ratio", ["token", "turn"])
def test_log_probs_move_with_the_sign_of_the_advantage(ratio, model) -> None:
    batch = random_batch(12, shared=False)
    batch.advantages = np.where(np.arange(12) % 2 == 0, 1.0, -1.0)
    trainer = LocalTrainer(spec_for(model, ratio=ratio, kl_coef=0.0, reference=False))
    before = trainer.log_probs(batch)
    trainer.update(batch)
    moved = [float((b - a).mean()) for a, b in zip(before, trainer.log_probs(batch), strict=True)]
    assert np.mean(moved[0::2]) > 0.05 and np.mean(moved[1::2]) < -0.05


def test_kl_pulls_back_to_the_reference(model) -> None:
    batch = random_batch(12)
    distances = {}
    for kl_coef in (0.0, 5.0):
        trainer = LocalTrainer(spec_for(model, kl_coef=kl_coef))
        for _ in range(4):
            trainer.update(batch)
        old = zip(trainer.log_probs(batch, "reference"), trainer.log_probs(batch), strict=True)
        distances[kl_coef] = float(np.mean([np.abs(a - b).mean() for a, b in old]))
    assert distances[5.0] < 0.5 * distances[0.0]


def test_learning_rate_zero_keeps_weights_and_log_probs_together(model, batch) -> None:
    trainer = LocalTrainer(spec_for(model, learning_rate=0.0))
    batch = replace(batch, rollout_log_probs=[row.tolist() for row in trainer.log_probs(batch)])
    for _ in range(3):
        metrics = trainer.update(batch, mini_batches=2)
        assert metrics["log_prob_gap_max"] < 1e-5 and metrics["kl"] < 1e-9
    assert largest_difference(trainer.weights(), start(model)) == 0


def test_the_gap_to_the_rollout_is_reported(model, batch) -> None:
    trainer = LocalTrainer(spec_for(model))
    shifted = [(row + 0.25).tolist() for row in trainer.log_probs(batch)]
    shifted[4][0] += 1.0
    metrics = trainer.update(replace(batch, rollout_log_probs=shifted))
    tokens = sum(map(len, batch.response_ids))
    assert metrics["log_prob_gap"] == pytest.approx(0.25 + 1.0 / tokens, abs=1e-4)
    assert metrics["log_prob_gap_max"] == pytest.approx(1.25, abs=1e-4)
    assert metrics["log_prob_gap_tail"] == pytest.approx(1.0)
    close = [row.tolist() for row in trainer.log_probs(batch)]
    close[4][0] += 0.2
    assert trainer.update(replace(batch, rollout_log_probs=close))["log_prob_gap_tail"] == pytest.approx(1 / tokens)


def test_a_step_that_is_not_finite_changes_nothing_and_is_counted(model, batch) -> None:
    trainer = LocalTrainer(spec_for(model))
    trainer.update(batch)
    before = trainer.weights()
    broken = replace(batch, advantages=batch.advantages * 1e38 * 10)
    metrics = trainer.update(broken)
    assert metrics["skipped_steps"] == 1 and metrics["optimizer_steps"] == 0
    assert largest_difference(trainer.weights(), before) == 0
    metrics = trainer.update(batch)
    assert metrics["skipped_steps"] == 0 and np.isfinite(metrics["loss"])
    assert 0 < largest_difference(trainer.weights(), before) < 1e-2, "the next step is an ordinary one"


def test_a_batch_without_a_counting_token_is_harmless(model, batch) -> None:
    trainer = LocalTrainer(spec_for(model))
    metrics = trainer.update(replace(batch, loss_mask=[[0] * len(r) for r in batch.response_ids]))
    assert metrics["tokens"] == 0 and metrics["loss"] == 0 and metrics["grad_norm"] == 0


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("constant", [1 / 3, 2 / 3, 1, 1, 1, 1]),
        ("linear", [1 / 3, 2 / 3, 1, 0.75, 0.5, 0.25]),
        ("cosine", [1 / 3, 2 / 3, 1, 0.853553, 0.5, 0.146447]),
    ],
)
def test_schedule_counts_optimiser_steps(schedule, expected, model) -> None:
    trainer = LocalTrainer(spec_for(model, lr_schedule=schedule, warmup_steps=2, total_steps=6))
    batch = random_batch(4)
    rates = [trainer.update(batch)["learning_rate"] for _ in range(4)]
    trainer.update(batch, mini_batches=1)
    rates += [expected[4] * 1e-3, trainer.update(batch)["learning_rate"]]
    assert np.array(rates) / 1e-3 == pytest.approx(expected, abs=1e-5)


def test_given_reference_log_probs_are_used(model, batch) -> None:
    trainer = LocalTrainer(spec_for(model))
    given = [(row - 0.5).tolist() for row in trainer.log_probs(batch, "reference")]
    metrics = trainer.update(replace(batch, reference_log_probs=given))
    assert metrics["kl"] == pytest.approx(np.exp(-0.5) - 1 + 0.5, abs=1e-4)
