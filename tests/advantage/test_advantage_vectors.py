"""The given vectors (tests/cases/advantage_vectors.json), to 1e-6."""

import numpy as np
import pytest
from advantage_tables import VECTORS

from agentrl.advantage import StepTable, compute, step_returns, terminal
from agentrl.advantage.gigpo import GigpoSettings, state_advantage
from agentrl.advantage.grpo import grpo
from agentrl.advantage.ptgpo import PtgpoSettings, prefix_trees, tree_advantage

GIGPO, PTGPO = VECTORS["gigpo"], VECTORS["ptgpo"]


def gigpo_table():
    return StepTable.from_rows([
        {"group": "task", "trajectory": i, "turn": t, "reward": row["r"], "state": row["s"], "action": row["a"],
         "valid": row["valid"]}
        for i, turns in enumerate(GIGPO["inputs"]["trajectories"]) for t, row in enumerate(turns)
    ])  # fmt: skip


def ptgpo_table(name):
    return StepTable.from_rows([
        {"group": "task", "trajectory": i, "turn": t, "reward": reward, "state": state, "action": action}
        for i, turns in enumerate(PTGPO[name]) for t, (state, action, reward) in enumerate(turns)
    ])  # fmt: skip


@pytest.mark.parametrize(("entry", "mode"), [("std", "mean_std"), ("mean", "mean")])
def test_gigpo(entry, mode):
    expected = GIGPO[f"trajectory_statistics_penalty_in_reward_{entry}"]
    table, inputs = gigpo_table(), GIGPO["inputs"]
    s = GigpoSettings(gamma=inputs["gamma"], norm_mode=mode, invalid_action_penalty=inputs["invalid_penalty"])
    np.testing.assert_allclose(step_returns(table, s), expected["returns"], atol=1e-6)
    np.testing.assert_allclose(grpo(table, s), expected["AE"], atol=1e-6)
    np.testing.assert_allclose(state_advantage(table, s), expected["AS"], atol=1e-6)
    result = compute(table, "gigpo", gamma=inputs["gamma"], omega=inputs["weight"], norm_mode=mode,
                     norm_eps=inputs["eps"], invalid_action_penalty=inputs["invalid_penalty"])  # fmt: skip
    np.testing.assert_allclose(result, expected["A"], atol=1e-6)


@pytest.mark.parametrize(("inputs", "entry"), [("inputs_a", "expected_a"), ("inputs_b", "expected_b_sum")])
def test_ptgpo(inputs, entry):
    expected, table = PTGPO[entry], ptgpo_table(inputs)
    keywords = {"gamma": PTGPO["gamma"], "tau_expand": PTGPO["tau_expand"], "norm_ddof": PTGPO["ddof"]}
    result = compute(table, "ptgpo", **keywords)
    np.testing.assert_allclose(result, np.concatenate(expected["A"]), atol=1e-6)
    tree = tree_advantage(table, PtgpoSettings(**keywords))
    np.testing.assert_allclose(tree, np.concatenate(expected["PT"]), atol=1e-6)
    np.testing.assert_allclose((result - tree)[table.turn == 0], expected["episode"], atol=1e-6)


@pytest.mark.parametrize(("inputs", "entry"), [("inputs_a", "expected_a"), ("inputs_b", "expected_b_sum")])
def test_ptgpo_tree_sizes_and_depths(inputs, entry):
    table = ptgpo_table(inputs)
    trees = prefix_trees(table, PtgpoSettings(gamma=PTGPO["gamma"]))
    for root, (_, state) in enumerate(zip(*table.state_group_parts, strict=True)):
        expected = PTGPO[entry]["trees"].get(table.labels["state"][state])
        assert expected is not None or trees.depth[root] == 0
        if expected is not None:
            assert trees.size[root] == expected["size"]
            assert trees.depth[root] == max((edge["depth"] + 1 for edge in expected["edges"]), default=0)


def test_terminal_reward_is_the_last_turns():
    table = ptgpo_table("inputs_a")
    np.testing.assert_array_equal(terminal(table, table.reward), [1, 0, 0, 0])


@pytest.mark.parametrize("method", ["grpo", "gigpo", "ptgpo"])
def test_edge_cases(method):
    edge = VECTORS["edge"]
    constant = compute(one_turn([0.3] * 8), method)
    np.testing.assert_array_equal(constant, edge["constant_group"])
    np.testing.assert_array_equal(compute(one_turn([3.0]), method), edge["singleton"])
    if method == "grpo":
        np.testing.assert_allclose(compute(one_turn([1.0, 0.0]), method), edge["two"], atol=1e-6)


def test_constant_groups_are_exactly_zero_where_float32_was_not():
    """Eight equal returns 10 * 0.95^7 gave 0.316 in the public code; ours stay 0, at any magnitude."""
    for value in (10 * 0.95**7, 0.1, 1e-9, 1e12 + 0.3, 1e90):
        for size in (2, 3, 8, 399):
            assert not compute(one_turn([value] * size), "grpo").any()


def one_turn(rewards):
    return StepTable.from_rows([
        {"group": 0, "trajectory": i, "turn": 0, "reward": reward, "state": "s", "action": "a"}
        for i, reward in enumerate(rewards)
    ])  # fmt: skip
