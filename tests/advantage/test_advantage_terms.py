"""Terms: sums of what the methods are made of, and of methods."""

import random

import numpy as np
import pytest
from advantage_tables import random_rows

from agentrl.advantage import StepTable, compute

PENALTY = {"invalid_action_penalty": 0.1}


def tables():
    return [StepTable.from_rows(random_rows(random.Random(seed))) for seed in range(40)]


@pytest.mark.parametrize(
    ("terms", "method", "keywords"),
    [
        (["episode"], "grpo", {}),
        ({"episode": 1, "state_group": 0.8}, "gigpo", {"omega": 0.8}),
        ({"terminal": 1.0, "prefix_tree": 0.5}, "ptgpo", {"tree_weight": 0.5, "norm_eps": 1e-6}),
        ({"rloo": 1.0}, "rloo", {}),
        ({"planpo": 1.0}, "planpo", {}),
    ],
)
def test_sums_are_the_methods(terms, method, keywords):
    for table in tables():
        got = compute(table, "terms", terms=terms, **PENALTY)
        np.testing.assert_allclose(got, compute(table, method, **PENALTY, **keywords), atol=1e-9)


def test_settings_reach_the_terms_and_weights_add_up():
    for table in tables():
        both = compute(table, "terms", terms={"gigpo": 2.0, "prefix_tree": -1.0}, gamma=0.5, max_depth=1)
        tree = compute(table, "ptgpo", gamma=0.5, max_depth=1, episode_weight=0.0, norm_eps=1e-6)
        np.testing.assert_allclose(both, 2 * compute(table, "gigpo", gamma=0.5) - tree, atol=1e-9)


@pytest.mark.parametrize(
    ("terms", "says"),
    [
        ({"episod": 1.0}, "nearest: 'episode'"),
        ({"terms": 1.0}, "is unknown"),
        ({"episode": "much"}, "must be a finite number"),
        ({"episode": float("nan")}, "must be a finite number"),
        ([], "is empty"),
        (["nowhere:f"], "cannot be imported"),
    ],
)
def test_wrong_terms_are_refused(terms, says):
    with pytest.raises(ValueError, match=says):
        compute(tables()[0], "terms", terms=terms)


def test_the_response_term_is_planpos():
    rng = random.Random(5)
    for _ in range(20):
        table = StepTable.from_rows(random_rows(rng))
        expected = compute(table, "planpo", episode_weight=0.0, alpha=1.0, alpha_final=1.0)
        np.testing.assert_allclose(compute(table, "terms", terms={"response": 1.0}), expected, atol=1e-12)
