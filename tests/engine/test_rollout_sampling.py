"""The sampler on CPU: it draws from the softmax, reports the log-probs it drew from, and a row never sees another."""

from __future__ import annotations

import numpy as np
import pytest

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def sampling():  # type: ignore[no-untyped-def]
    from agentrl.engine import vllm_sampling

    return vllm_sampling


def rows(count: int, vocabulary: int = 200, seed: int = 0):  # type: ignore[no-untyped-def]
    import torch

    return torch.randn(count, vocabulary, generator=torch.Generator().manual_seed(seed)) * 3


def uniform(sampling, count: int):  # type: ignore[no-untyped-def]
    import torch

    seeds, positions = np.arange(count, dtype=np.uint64), np.zeros(count, dtype=np.uint64)
    return torch.from_numpy(sampling.uniforms(seeds, positions)).unsqueeze(1)


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.4, 1.0), (1.0, 0.7)])
def test_frequencies_are_the_probabilities(sampling, temperature: float, top_p: float) -> None:  # type: ignore[no-untyped-def]
    import torch

    n = 40_000
    logits = rows(1, vocabulary=12)
    tokens, log_probs = sampling.draw(
        logits.expand(n, -1).clone(), torch.full((n,), temperature), torch.full((n,), top_p), uniform(sampling, n)
    )
    wanted = (logits[0].double() / temperature).softmax(-1)
    if top_p < 1:
        order = wanted.argsort(descending=True)
        kept = order[: int((wanted[order].cumsum(0) < top_p).sum()) + 1]
        wanted = torch.zeros_like(wanted).scatter(0, kept, wanted[kept] / wanted[kept].sum())
    seen = torch.bincount(tokens.flatten(), minlength=12).double() / n
    assert (seen - wanted).abs().max() < 4 * np.sqrt(0.25 / n)
    assert not seen[wanted == 0].any()
    assert torch.allclose(log_probs.flatten().double().exp(), wanted[tokens.flatten()], atol=1e-6)


def test_a_row_depends_on_itself_only(sampling) -> None:  # type: ignore[no-untyped-def]
    import torch

    logits, draws = rows(64, vocabulary=3147), uniform(sampling, 64)
    heat, top_p = torch.ones(64), torch.ones(64)
    tokens, log_probs = sampling.draw(logits.clone(), heat, top_p, draws)
    for k in range(64):
        one, its = sampling.draw(logits[k : k + 1].clone(), heat[:1], top_p[:1], draws[k : k + 1])
        assert int(one) == int(tokens[k]) and float(its) == float(log_probs[k])


def test_temperature_zero_is_the_largest_logit(sampling) -> None:  # type: ignore[no-untyped-def]
    import torch

    logits = rows(8)
    assert torch.equal(sampling.draw(logits.clone(), None, None, uniform(sampling, 8))[0], logits.argmax(-1, True))
    mixed = torch.tensor([0.0, 1.0] * 4)
    assert torch.equal(
        sampling.draw(logits.clone(), mixed, None, uniform(sampling, 8))[0][::2], logits.argmax(-1, True)[::2]
    )


def test_impossible_tokens_are_never_drawn(sampling) -> None:  # type: ignore[no-untyped-def]
    import torch

    logits = torch.full((3, 130), -torch.inf)
    logits[:, 64] = 0.0
    ends = torch.tensor([[0.0], [0.5], [np.nextafter(1.0, 0.0)]], dtype=torch.float64)
    tokens, log_probs = sampling.draw(logits, torch.ones(3), None, ends)
    assert tokens.flatten().tolist() == [64] * 3 and not log_probs.any()


def test_uniform_numbers_are_uniform_and_fixed_by_seed_and_position(sampling) -> None:  # type: ignore[no-untyped-def]
    seeds = np.repeat(np.arange(500, dtype=np.uint64), 100)
    positions = np.tile(np.arange(100, dtype=np.uint64), 500)
    found = sampling.uniforms(seeds, positions)
    assert np.array_equal(found, sampling.uniforms(seeds, positions)) and len(np.unique(found)) == len(found)
    assert found.min() >= 0 and found.max() < 1
    assert np.abs(np.histogram(found, 20, (0, 1))[0] - 2500).max() < 5 * np.sqrt(2500)
    grid = found.reshape(500, 100) - 0.5
    assert abs((grid[:, 1:] * grid[:, :-1]).mean()) < 5 / 12 / np.sqrt(49_500)  # neighbours know nothing of each other
    assert abs((grid[1:] * grid[:-1]).mean()) < 5 / 12 / np.sqrt(49_900)
