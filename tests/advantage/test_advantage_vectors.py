"""The given vectors (tests/cases/advantage_vectors.json), to 1e-6."""

import numpy as np
import pytest
from advantage_tables import VECTORS

from agentrl.advantage import StepTable, compute, loss_rows, step_returns, terminal
from agentrl.advantage.gigpo import GigpoSettings, state_advantage
from agentrl.advantage.grpo import grpo
from agentrl.advantage.planpo import PlanpoSettings, alpha_at, length_reward, response_advantage
from agentrl.advantage.pta_grpo import PtaSettings, pairs
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


@pytest.mark.parametrize("method", ["grpo", "rloo", "drgrpo", "first_step_grpo", "gigpo", "ptgpo"])
def test_edge_cases(method):
    edge = VECTORS["edge"]
    constant = compute(one_turn([0.3] * 8), method)
    np.testing.assert_array_equal(constant, edge["constant_group"])
    np.testing.assert_array_equal(compute(one_turn([3.0]), method), edge["singleton"])
    if method in ("grpo", "first_step_grpo"):
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


def planpo_table():
    return StepTable.from_rows([
        {"group": "task", "trajectory": i, "turn": t, "reward": 10.0 * (entry["success"] and t == len(entry["L"]) - 1),
         "state": "s", "action": "a", "response_length": length, "success": entry["success"]}
        for i, entry in enumerate(VECTORS["planpo"]["inputs"]["trajectories"]) for t, length in enumerate(entry["L"])
    ])  # fmt: skip


def test_planpo():
    expected, inputs, table = VECTORS["planpo"]["flat_success"], VECTORS["planpo"]["inputs"], planpo_table()
    s = PlanpoSettings(success_reward=inputs["R"], norm_eps=inputs["eps"], norm_ddof=inputs["ddof"])
    np.testing.assert_allclose(length_reward(table, s), expected["RE"], atol=1e-6)
    np.testing.assert_allclose(response_advantage(table, s), np.concatenate(expected["AS"]), atol=1e-6)
    alone = compute(table, "planpo", alpha=0.0)
    np.testing.assert_allclose(alone[table.turn == 0], expected["AE"], atol=1e-6)
    result = compute(table, "planpo", alpha=inputs["alpha"])
    np.testing.assert_allclose(result, np.concatenate(expected["A"]), atol=1e-6)


def test_planpo_alpha_schedule():
    for step, alpha in VECTORS["planpo"]["alpha_schedule_K150"].items():
        s = PlanpoSettings(step=int(step), total_steps=150)
        assert alpha_at(s) == pytest.approx(alpha, abs=1e-6)


def pta_table(stages=("",)):
    plans = VECTORS["pta_grpo"]["inputs"]["plans"]
    return StepTable.from_rows([
        {"group": "q", "trajectory": (i, j), "turn": k, "reward": 0.0, "state": "s", "action": "a", "plan": i,
         "success": bool(ok), "response_length": length * (k == 0), "well_formed": formed, "stage": stage}
        for i, plan in enumerate(plans)
        for j, (ok, length, formed) in enumerate(zip(plan["ok"], plan["len"], plan["fmt"], strict=True))
        for k, stage in enumerate(stages)
    ])  # fmt: skip


def test_pta_grpo():
    expected, inputs = VECTORS["pta_grpo"]["default_ddof0"], VECTORS["pta_grpo"]["inputs"]
    keywords = {name: inputs[name] for name in ("alpha", "beta", "temperature", "structure")}
    found = pairs(pta_table(), PtaSettings(**keywords))
    np.testing.assert_allclose(found.analytic, expected["softmax"], atol=1e-6)
    for name in ("outcome", "structure", "length", "total"):
        np.testing.assert_allclose(getattr(found, name), [row[name] for row in expected["rows"]], atol=1e-6)
    np.testing.assert_allclose(compute(pta_table(), "pta_grpo", **keywords), expected["A"], atol=1e-6)
    for credit in ("plan_mean", "plan_only"):
        table = pta_table(stages=("plan", "solution"))
        result = compute(table, "pta_grpo", plan_credit=credit, **keywords)
        np.testing.assert_allclose(result[1::2], expected["A"], atol=1e-6)
        np.testing.assert_allclose(result[::2], np.repeat(expected[f"{credit}_A"], 3), atol=1e-6)


def anchor_table():
    inputs = VECTORS["anchor_grpo"]["inputs"]
    return StepTable.from_rows([
        {"group": "q", "trajectory": i, "turn": t, "reward": float(reward and t == turns - 1), "state": "s",
         "action": "a", "rubric": sum(rubric) / 30}
        for i, (rubric, turns, reward) in enumerate(
            zip(inputs["rubric"], inputs["n_steps"], inputs["exec_reward"], strict=True)
        )
        for t in range(turns)
    ])  # fmt: skip


@pytest.mark.parametrize("stage", [1, 2])
def test_anchor_grpo(stage):
    expected, table = VECTORS["anchor_grpo"][f"stage{stage}"], anchor_table()
    result = compute(table, "anchor_grpo", stage=stage)
    np.testing.assert_allclose(result, np.concatenate(expected["A_step"]), atol=1e-6)
    np.testing.assert_array_equal(
        loss_rows(table, "anchor_grpo", stage=stage), np.concatenate(expected["loss_mask_step"])
    )
