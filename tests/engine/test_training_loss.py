"""The policy loss: the published cases, the same as verl's where verl's is right, and additive over any split."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.engine
CASES = json.loads((Path(__file__).parents[1] / "cases" / "advantage_vectors.json").read_text())["anchor_grpo"]


@pytest.fixture(scope="module")
def modules():
    from training_local import use_cpu_platform

    use_cpu_platform()
    import torch

    from agentrl.engine import loss

    return SimpleNamespace(torch=torch, loss=loss)


def make_data(torch, rows=6, width=5, seed=0):
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, width + 1, (rows,), generator=g)
    lengths[0] = width
    mask = (torch.arange(width) < lengths[:, None]).float()
    old = torch.randn(rows, width, generator=g) * 0.5 - 2
    return {
        "response_mask": mask,
        "advantages": torch.randn(rows, 1, generator=g).expand(rows, width).contiguous(),
        "old_log_probs": old,
        "reference_log_probs": old + torch.randn(rows, width, generator=g) * 0.3,
        "rollout_log_probs": old + torch.randn(rows, width, generator=g) * 0.1,
        "log_probs": old + torch.randn(rows, width, generator=g) * 0.4,
        "entropy": torch.rand(rows, width, generator=g),
    }


def run(modules, data, rows=slice(None), *, whole=None, dp_size=1, **spec):
    """(loss, metrics, gradient by log_probs) of some rows, divided by the counts of the whole."""
    from agentrl.engine.training_spec import TrainingSpec

    settings = {"kl_coef": 0.05, "entropy_coef": 0.01, "reference": True, "clip_high": 0.28, **spec}
    part = {name: None if v is None else v[rows].clone() for name, v in data.items()}
    outputs = {"log_probs": part.pop("log_probs").requires_grad_(), "entropy": part.pop("entropy")}
    mask = data["response_mask"] if whole is None else whole
    counts = {
        "batch_num_tokens": int(mask.sum()),
        "global_batch_size": int((mask.sum(-1) > 0).sum()),
        "dp_size": dp_size,
    }
    loss, metrics = modules.loss.PolicyLoss(TrainingSpec(model_path="x", **settings))(outputs, part | counts)
    loss.backward()
    return loss.detach(), metrics, outputs["log_probs"].grad


@pytest.mark.parametrize("case", CASES["clip_cases"], ids=lambda c: f"{c['ratio']}/{c['A']:+.0f}")
def test_published_clip_cases(modules, case) -> None:
    torch = modules.torch
    inputs = CASES["inputs"]
    objective, *_ = modules.loss.clipped_objective(
        torch.tensor([case["ratio"]]), torch.tensor([case["A"]]), inputs["clip_low"], inputs["clip_high"], 1e9
    )
    assert objective.item() == pytest.approx(case["objective"], abs=1e-6)


def test_dual_clip_bounds_only_losses_of_bad_actions(modules) -> None:
    torch = modules.torch
    ratio, a = torch.tensor([10.0, 10.0, 2.0]), torch.tensor([-1.0, 1.0, -1.0])
    objective, clipped, bounded = modules.loss.clipped_objective(ratio, a, 0.2, 0.28, 3.0)
    assert objective.tolist() == pytest.approx([-3.0, 1.28, -2.0])
    assert bounded.tolist() == [True, False, False] and clipped.tolist() == [False, True, False]


@pytest.mark.parametrize("aggregation", ["token-mean", "turn-mean", "token-sum"])
def test_aggregation_by_hand(modules, aggregation) -> None:
    data = make_data(modules.torch)
    loss, _, _ = run(modules, data, loss_aggregation=aggregation, loss_constant=7.0, kl_coef=0.0, entropy_coef=0.0)
    rows = []
    for i in range(len(data["log_probs"])):
        n = int(data["response_mask"][i].sum())
        r = (data["log_probs"][i, :n] - data["old_log_probs"][i, :n]).exp()
        a = data["advantages"][i, :n]
        rows.append([-min(float(x * y), float(min(max(x, 0.8), 1.28) * y)) for x, y in zip(r, a, strict=True)])
    if aggregation == "token-mean":
        expected = sum(map(sum, rows)) / sum(map(len, rows))
    elif aggregation == "turn-mean":
        expected = sum(sum(row) / len(row) for row in rows) / len(rows)
    else:
        expected = sum(map(sum, rows)) / (len(rows) * 7.0)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("aggregation", ["token-mean", "turn-mean", "token-sum"])
@pytest.mark.parametrize("ratio", ["token", "turn"])
@pytest.mark.parametrize("pieces", [[2, 4], [1, 1, 1, 1, 1, 1], [5, 1]])
def test_pieces_add_up_to_the_whole(modules, aggregation, ratio, pieces) -> None:
    torch = modules.torch
    data = make_data(torch)
    settings = {"loss_aggregation": aggregation, "ratio": ratio, "loss_constant": 3.0}
    loss, metrics, gradient = run(modules, data, **settings)
    start, parts = 0, []
    for size in pieces:
        parts.append(run(modules, data, slice(start, start + size), whole=data["response_mask"], **settings))
        start += size
    assert sum(part[0] for part in parts).item() == pytest.approx(loss.item(), rel=1e-5)
    torch.testing.assert_close(torch.cat([part[2] for part in parts]), gradient)
    for name, value in metrics.items():
        found = [part[1][name] for part in parts]
        joined = max(found) if name.startswith("max/") else sum(found)
        assert joined.item() == pytest.approx(value.item(), rel=1e-4, abs=1e-6), name


@pytest.mark.parametrize("aggregation", ["token-mean", "turn-mean", "token-sum"])
def test_padding_rows_and_workers_change_nothing(modules, aggregation) -> None:
    torch = modules.torch
    data = make_data(torch)
    loss, _, gradient = run(modules, data, loss_aggregation=aggregation)
    padded = {name: torch.cat([v, torch.full((2, v.shape[1]), -9.0)]) for name, v in data.items()}
    padded["response_mask"][-2:] = 0
    again, _, more = run(modules, padded, loss_aggregation=aggregation)
    torch.testing.assert_close(again, loss)
    torch.testing.assert_close(more[:-2], gradient)
    assert not more[-2:].any()
    # two workers: each loss is twice as large, FSDP takes the mean of the two gradients
    halves = [
        run(modules, data, s, whole=data["response_mask"], dp_size=2, loss_aggregation=aggregation)
        for s in (slice(0, 2), slice(2, None))
    ]
    torch.testing.assert_close(torch.cat([h[2] for h in halves]) / 2, gradient)


def test_first_step_has_ratio_one_and_still_a_gradient(modules) -> None:
    torch = modules.torch
    data = make_data(torch) | {"old_log_probs": None, "rollout_log_probs": None}
    loss, metrics, gradient = run(modules, data, kl_coef=0.0, entropy_coef=0.0)
    mask, a = data["response_mask"], data["advantages"]
    assert loss.item() == pytest.approx(-(a * mask).sum().item() / mask.sum().item(), rel=1e-5)
    torch.testing.assert_close(gradient, -a * mask / mask.sum())
    assert metrics["sum/clip_fraction"] == 0 and metrics["max/ratio"] == 1


def test_turn_ratio_is_the_geometric_mean(modules) -> None:
    torch = modules.torch
    data = make_data(torch)
    loss, _, _ = run(modules, data, ratio="turn", loss_aggregation="turn-mean", kl_coef=0.0, entropy_coef=0.0)
    expected = 0.0
    for i in range(len(data["log_probs"])):
        n = int(data["response_mask"][i].sum())
        ratio = (data["log_probs"][i, :n] - data["old_log_probs"][i, :n]).mean().exp().item()
        a = data["advantages"][i, 0].item()
        expected -= min(ratio * a, min(max(ratio, 0.8), 1.28) * a) / len(data["log_probs"])
    assert loss.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("aggregation", ["token-mean", "turn-mean", "token-sum"])
def test_equals_verls_own_clipped_loss(modules, aggregation) -> None:
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
    from verl.workers.config import ActorConfig

    data = make_data(modules.torch, seed=3)
    data["log_probs"] = data["old_log_probs"] + 3 * (data["log_probs"] - data["old_log_probs"])  # reach the dual clip
    loss, metrics, _ = run(modules, data, loss_aggregation=aggregation, kl_coef=0.0, entropy_coef=0.0, clip_low=0.1)
    config = ActorConfig(
        strategy="fsdp2", rollout_n=1, use_dynamic_bsz=True, ppo_micro_batch_size_per_gpu=1,
        clip_ratio=0.1, clip_ratio_low=0.1, clip_ratio_high=0.28, clip_ratio_c=3.0, loss_scale_factor=1,
    )  # fmt: skip
    mask = data["response_mask"]
    config.global_batch_info.update(
        dp_size=1, batch_num_tokens=int(mask.sum()), global_batch_size=len(mask), loss_scale_factor=1
    )
    theirs, their_metrics = compute_policy_loss_vanilla(
        data["old_log_probs"], data["log_probs"], data["advantages"], mask,
        modules.loss.VERL_AGGREGATION[aggregation], config,
    )  # fmt: skip
    assert loss.item() == pytest.approx(theirs.item(), rel=1e-5)
    tokens = mask.sum().item()
    assert metrics["sum/clip_fraction"].item() / tokens == pytest.approx(their_metrics["actor/pg_clipfrac"], abs=1e-6)
    bounded = metrics["sum/dual_clip_fraction"].item() / tokens
    assert bounded == pytest.approx(their_metrics["actor/pg_clipfrac_lower"], abs=1e-6) and bounded > 0


def test_kl_and_entropy_terms(modules) -> None:
    data = make_data(modules.torch)
    mask = data["response_mask"]
    base, metrics, _ = run(modules, data, kl_coef=0.0, entropy_coef=0.0)
    both, _, _ = run(modules, data, kl_coef=0.3, entropy_coef=0.2)
    gap = data["reference_log_probs"] - data["log_probs"]
    kl = ((gap.exp() - gap - 1) * mask).sum() / mask.sum()
    entropy = (data["entropy"] * mask).sum() / mask.sum()
    assert (both - base).item() == pytest.approx((0.3 * kl - 0.2 * entropy).item(), rel=1e-4)
    assert (metrics["sum/kl"] / mask.sum()).item() == pytest.approx(kl.item(), rel=1e-4)


def test_values_beyond_a_response_never_count(modules) -> None:
    torch = modules.torch
    data = make_data(torch)
    loss, _, _ = run(modules, data)
    wild = {name: v.masked_fill(data["response_mask"] == 0, 50.0) for name, v in data.items() if v is not None}
    wild["response_mask"] = data["response_mask"]
    again, metrics, _ = run(modules, wild)
    torch.testing.assert_close(again, loss)
    assert all(torch.isfinite(v) for v in metrics.values())
