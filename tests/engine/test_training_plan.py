"""How rows become micro-batches: nothing lost, nothing counted twice, the same number on every worker."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from training_local import random_batch

from agentrl.engine.training_batches import PADDING_ROW
from agentrl.engine.training_plan import plan
from agentrl.engine.training_spec import TrainingBatch, TrainingSpec


@settings(deadline=None, max_examples=60)
@given(
    rows=st.integers(1, 40),
    workers=st.integers(1, 5),
    mini_batches=st.integers(1, 6),
    max_tokens=st.sampled_from([1, 64, 300, 10_000]),
    micro_batch_size=st.sampled_from([None, 1, 3]),
    share=st.booleans(),
    seed=st.integers(0, 5),
)
def test_every_row_once_with_its_own_numbers(rows, workers, mini_batches, max_tokens, micro_batch_size, share, seed):
    batch = random_batch(rows, seed)
    mini_batches = min(mini_batches, rows)
    plans = plan(batch, workers, mini_batches, max_tokens, micro_batch_size, share)
    assert len(plans) == workers and {len(p.mini_batches) for p in plans} == {mini_batches}
    seen = []
    for k in range(mini_batches):
        parts = [p.mini_batches[k] for p in plans]
        assert len({len(part.micro_batches) for part in parts}) == 1, "the same number of micro-batches on each worker"
        here = []
        for micro in (m for part in parts for m in part.micro_batches):
            real = [int(row) for row in micro.rows if row != PADDING_ROW]
            here += real
            if len(real) > 1 and not micro_batch_size:
                assert micro.ids.size <= max_tokens
            if micro_batch_size:
                assert len(real) <= micro_batch_size
            flat, at = micro.ids.flatten(), 0
            for i, row in enumerate(micro.rows):
                size = int(micro.response_lengths[i])
                targets, sources = micro.targets[at : at + size], micro.sources[at : at + size]
                at += size
                if row == PADDING_ROW:
                    assert not micro.loss_mask[i].any()
                    continue
                whole = [*batch.prompt_ids[row], *batch.response_ids[row]]
                assert micro.ids[i, : micro.lengths[i]].tolist() == whole
                assert flat[targets].tolist() == list(batch.response_ids[row])
                assert flat[sources].tolist() == whole[-size - 1 : -1]
                assert micro.loss_mask[i].sum() == size
                assert micro.advantages[i, :size] == pytest.approx(batch.advantages[row])
                assert micro.rollout_log_probs[i, :size] == pytest.approx(batch.rollout_log_probs[row])
        tokens = sum(len(batch.response_ids[row]) for row in here)
        assert {(part.tokens, part.rows) for part in parts} == {(tokens, len(here))}
        assert sorted(here) == list(range(min(here), max(here) + 1)), "a mini-batch is a run of rows"
        seen += here
    assert sorted(seen) == list(range(rows))


@settings(deadline=None, max_examples=60)
@given(seed=st.integers(0, 1000), rows=st.integers(1, 30))
def test_prefix_tree_is_the_tree_of_the_rows(seed, rows) -> None:
    """One node for each distinct prefix, no more and no less; every token is where its node says."""
    rng = np.random.default_rng(seed)
    batch = TrainingBatch(
        [rng.integers(0, 3, rng.integers(1, 6)).tolist() for _ in range(rows)],
        [rng.integers(0, 3, rng.integers(1, 4)).tolist() for _ in range(rows)],
        np.zeros(rows),
    )
    (micro,) = plan(batch, 1, max_tokens=10**6, share_prefixes=True)[0].mini_batches[0].micro_batches
    prefixes: dict[tuple[int, ...], set[int]] = {}
    for k, length in enumerate(micro.lengths):
        for t in range(length):
            prefixes.setdefault(tuple(micro.ids[k, : t + 1].tolist()), set()).add(int(micro.nodes[k, t]))
    assert all(len(nodes) == 1 for nodes in prefixes.values())
    assert len(prefixes) == len({n for nodes in prefixes.values() for n in nodes}) == micro.computed_tokens
    assert (micro.nodes.flatten()[micro.first] == np.arange(micro.computed_tokens)).all()


def test_prefix_tree_by_hand() -> None:
    batch = TrainingBatch([[5, 6, 7]] * 3 + [[5, 9]], [[1, 2], [1, 2], [1, 3], [1]], np.zeros(4))
    (micro,) = plan(batch, 1, share_prefixes=True)[0].mini_batches[0].micro_batches
    assert micro.rows.tolist() == [0, 1, 2, 3]
    assert micro.nodes.tolist() == [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3, 5], [0, 6, 7, 0, 0]]
    assert micro.first.tolist() == [0, 1, 2, 3, 4, 14, 16, 17]
    assert micro.sources.tolist() == [2, 3, 7, 8, 12, 13, 16]


@pytest.mark.parametrize("share", [False, True])
def test_work_is_balanced_over_workers(share) -> None:
    plans = plan(random_batch(128), 4, 1, 10**6 if share else 200, share_prefixes=share)
    loads = [
        sum(m.computed_tokens if share else int(m.lengths.sum()) for m in p.mini_batches[0].micro_batches)
        for p in plans
    ]
    longest_row = 60  # runs of neighbours are cut between rows, and where they are cut a prefix is computed twice
    assert max(loads) - min(loads) <= (2 * longest_row if share else 0.02 * sum(loads))


def test_a_masked_row_counts_no_token_and_no_row() -> None:
    batch = random_batch(4)
    batch.loss_mask = [[1] * len(r) for r in batch.response_ids]
    batch.loss_mask[2] = [0] * len(batch.response_ids[2])
    mini = plan(batch, 1)[0].mini_batches[0]
    assert mini.rows == 3
    assert mini.tokens == sum(len(r) for i, r in enumerate(batch.response_ids) if i != 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"response_ids": [[1], []]}, "row 1 .* empty"),
        ({"advantages": np.array([1.0, np.nan])}, "row 1 is not a finite number"),
        ({"advantages": np.array([1.0])}, "advantages has 1 rows"),
        ({"rollout_log_probs": [[-1.0], [-1.0, -2.0]]}, "rollout_log_probs of row 1"),
        ({"prompt_ids": []}, "no rows"),
    ],
)
def test_bad_batches_are_named(change, message) -> None:
    fields = {"prompt_ids": [[1], [2]], "response_ids": [[1], [2]], "advantages": np.zeros(2)} | change
    with pytest.raises(ValueError, match=message):
        TrainingBatch(**fields).check()


def test_more_mini_batches_than_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="mini_batches=5"):
        plan(random_batch(4), 1, mini_batches=5)


@pytest.mark.parametrize(
    "change",
    [{"kl_coef": 0.1}, {"workers": 0}, {"workers": 3, "nodes": 2}, {"clip_ratio_c": 1.0}, {"grad_clip": 0.0}],
)
def test_impossible_specs_are_refused(change) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        TrainingSpec(model_path="x", **change)
