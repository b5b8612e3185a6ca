"""Properties that hold for every table (hypothesis)."""

import random

import numpy as np
import pytest
from advantage_naive import to_go
from advantage_tables import random_rows
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentrl.advantage import (
    StepTable,
    compute,
    compute_with_stats,
    discounted_sum,
    loss_rows,
    settings_fields,
    value_targets,
)
from agentrl.advantage.anchors import action_codes
from agentrl.advantage.ptgpo import PtgpoSettings, prefix_trees

METHODS = ["grpo", "gigpo", "ptgpo"]
PENALISED = {"invalid_action_penalty": 0.1}
OTHERS = ["rloo", "drgrpo", "dapo", "planpo", "first_step_grpo", "anchor_grpo", "pta_grpo"]
each = pytest.mark.parametrize("method", METHODS)
every = pytest.mark.parametrize("method", METHODS + OTHERS)


@st.composite
def tables(draw):
    """Rows of a random batch; hypothesis draws the shape by seed and may replace every reward by one of its own."""
    rows = random_rows(random.Random(draw(st.integers(0, 2**32))))
    if draw(st.booleans()):
        number = st.floats(-1e6, 1e6, allow_nan=False, width=32)
        for row, reward in zip(rows, draw(st.lists(number, min_size=len(rows), max_size=len(rows))), strict=True):
            row["reward"] = reward
    return rows


def examples(count):
    return settings(max_examples=count, deadline=None, derandomize=True,
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])  # fmt: skip


def of(rows, method, **keywords):
    return compute(StepTable.from_rows(rows), method, **keywords)


def close(got, expected, scale=1.0):
    np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6 * scale)


@every
@given(rows=tables(), seed=st.integers(0, 1000))
@examples(40)
def test_row_order_does_not_matter(method, rows, seed):
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    close(of([rows[i] for i in order], method, **PENALISED), of(rows, method, **PENALISED)[order])


@every
@given(rows=tables())
@examples(40)
def test_names_and_order_of_groups_do_not_matter(method, rows):
    renamed = [row | {"group": ("z", row["group"][::-1]), "trajectory": hash(row["trajectory"]),
                      "state": row["state"] + "!", "action": len(row["action"].encode()) * "x" + row["action"]}
               for row in rows]  # fmt: skip
    by_group = sorted(range(len(rows)), key=lambda i: rows[i]["group"], reverse=True)
    close(of([renamed[i] for i in by_group], method, **PENALISED), of(rows, method, **PENALISED)[by_group])


@every
@given(rows=tables())
@examples(40)
def test_tasks_do_not_mix(method, rows):
    """A task's advantages are the same alone and in the batch, though tasks share state and action texts."""
    together = of(rows, method, **PENALISED)
    for group in {row["group"] for row in rows}:
        mine = [i for i, row in enumerate(rows) if row["group"] == group]
        close(of([rows[i] for i in mine], method, **PENALISED), together[mine])


@each
@given(rows=tables(), reward=st.floats(-100, 100))
@examples(40)
def test_equal_outcomes_give_exactly_zero(method, rows, reward):
    last = {}
    for row in rows:
        last[row["trajectory"]] = max(last.get(row["trajectory"], 0), row["turn"])
    rows = [row | {"reward": reward * (row["turn"] == last[row["trajectory"]]), "valid": True} for row in rows]
    assert not of(rows, method, gamma=1.0).any()


@each
@given(
    rows=tables(),
    keywords=st.sampled_from(
        [
            {},
            PENALISED,
            {"preset": "verl_agent", **PENALISED},
            {"stat_unit": "step"},
            {"norm_floor": 0.0, "norm_eps": 0.0},
            {"norm_mode": "mean"},
            {"penalty_mode": "local", **PENALISED},
        ]
    ),
)
@examples(60)
def test_finite_everywhere(method, rows, keywords):
    result, stats = compute_with_stats(StepTable.from_rows(rows), method, **keywords)
    assert result.dtype == np.float64
    assert result.shape == (len(rows),)
    assert np.isfinite(result).all()
    assert all(np.isfinite(value).all() for value in stats.values())


@each
@given(rows=tables(), factor=st.floats(0.01, 100))
@examples(40)
def test_scaling_the_rewards(method, rows, factor):
    """mean_std does not feel a factor; mean grows with it (no eps and no floor, so that the sizes do not matter)."""
    bare = {"norm_eps": 0.0, "norm_floor": 0.0}
    rows = [row | {"reward": round(row["reward"], 3)} for row in rows]
    scaled = [row | {"reward": row["reward"] * factor} for row in rows]
    size = 1 + max(abs(row["reward"]) for row in rows)
    mean = {"norm_mode": "mean"}
    close(of(scaled, method, **bare, **mean), factor * of(rows, method, **bare, **mean), factor * size)
    if method == "grpo" and size < 1e3:
        close(of(scaled, method, **bare), of(rows, method, **bare))


@given(rows=tables(), constant=st.integers(-1000, 1000))
@examples(40)
def test_a_constant_on_every_outcome_changes_nothing_in_grpo(rows, constant):
    rows = [row | {"reward": round(row["reward"] % 10, 2)} for row in rows]
    moved = [row | {"reward": row["reward"] + constant * (row["turn"] == 0)} for row in rows]
    close(of(moved, "grpo"), of(rows, "grpo"))


@given(rows=tables(), gamma=st.sampled_from([0.0, 0.5, 0.95, 1.0]))
@examples(40)
def test_discounted_sum(rows, gamma):
    table = StepTable.from_rows(rows)
    expected = [to_go(rows, row, gamma, 0.0) for row in rows]
    np.testing.assert_allclose(discounted_sum(table, table.reward, gamma), expected, rtol=1e-9, atol=1e-6)


@given(rows=tables(), tau=st.integers(1, 4), depth=st.sampled_from([None, 1, 2, 3]))
@examples(80)
def test_ptgpo_credits_telescope(rows, tau, depth):
    """Eq. 6: from any start, return - root mean = the Deltas along its path + return - mean of its last node.

    The trees are walked here by hand; ``prefix_trees`` gives the sum of the Deltas per action, which must be the same.
    """
    table = StepTable.from_rows(rows)
    s = PtgpoSettings(tau_expand=tau, max_depth=depth, norm_mode="mean", norm_floor=0.0)
    returns = discounted_sum(table, table.reward, s.gamma)
    actions = action_codes(table, s.action_key, s.invalid_key)[0][table.order]
    states, returns = table.state_group[table.order], returns[table.order]
    scale = 1 + np.abs(returns).max()
    end = np.arange(len(table)) + table.position_left
    total = np.zeros(len(table))
    for start in range(len(table)):
        members = np.flatnonzero(states == states[start])
        if np.ptp(returns[members]) == 0:
            continue
        root_mean = node_mean = returns[members].mean()
        walked = 0.0
        for at in range(start, end[start]):
            step = at - start
            if len(members) < tau or (depth is not None and step >= depth):
                break
            members = members[end[members] > members + step]
            members = members[actions[members + step] == actions[at]]
            delta = returns[members].mean() - node_mean
            walked, node_mean = walked + delta, returns[members].mean()
            total[at] += delta
        assert returns[start] - root_mean == pytest.approx(walked + returns[start] - node_mean, abs=1e-9 * scale)
    np.testing.assert_allclose(prefix_trees(table, s).total, total, atol=1e-8 * scale)


@given(seed=st.integers(0, 2**32))
@examples(80)
def test_ptgpo_credits_of_a_trajectory_telescope(seed):
    """Eq. 6 on the outputs: where only the first state is shared, a trajectory's credits sum up to its whole path."""
    rng = random.Random(seed)
    paths = [[rng.choice("ab") for _ in range(rng.randint(1, 5))] for _ in range(rng.randint(2, 8))]
    rewards = [float(rng.randint(0, 3)) for _ in paths]
    rows = [
        {"group": 0, "trajectory": i, "turn": t, "reward": rewards[i] * (t + 1 == len(path)), "action": action,
         "state": "start" if t == 0 else (i, t)}
        for i, path in enumerate(paths) for t, action in enumerate(path)
    ]  # fmt: skip
    table = StepTable.from_rows(rows)
    s = PtgpoSettings(gamma=1.0, norm_mode="mean", episode_weight=0.0)
    trees = prefix_trees(table, s)
    for i, path in enumerate(paths):
        last = rewards  # returns in the last node of the path: the deepest one whose parent was expanded
        for depth in range(1, len(path) + 1):
            if len(last) < 2:
                break
            last = [r for r, other in zip(rewards, paths, strict=True) if other[:depth] == path[:depth]]
        whole = rewards[i] - np.mean(rewards)
        credits = trees.total[table.trajectory[table.order] == i].sum()
        assert credits + rewards[i] - np.mean(last) == pytest.approx(whole, abs=1e-12)


@given(rows=tables())
@examples(40)
def test_an_unexpanded_tree_gives_no_credit(rows):
    alone = of(rows, "ptgpo", tree_weight=0.0)
    np.testing.assert_array_equal(of(rows, "ptgpo", tau_expand=len(rows) + 1), alone)
    np.testing.assert_array_equal(of(rows, "ptgpo", max_depth=0), alone)


@given(rows=tables())
@examples(40)
def test_terms(rows):
    """gigpo without A_S is grpo; ptgpo without trees is grpo on the same outcome; terms add up."""
    np.testing.assert_array_equal(of(rows, "gigpo", omega=0.0, **PENALISED), of(rows, "grpo", **PENALISED))
    bare = of(rows, "ptgpo", tree_weight=0.0, episode_reward="sum", **PENALISED)
    np.testing.assert_array_equal(bare, of(rows, "grpo", norm_eps=0.0, **PENALISED))
    whole, tree = of(rows, "ptgpo", **PENALISED), of(rows, "ptgpo", episode_weight=0.0, **PENALISED)
    np.testing.assert_allclose(whole, tree + of(rows, "ptgpo", tree_weight=0.0, **PENALISED), rtol=1e-9, atol=1e-9)


@given(rows=tables())
@examples(30)
def test_the_penalty_stays_out_of_the_trees_unless_asked(rows):
    trees = {"episode_weight": 0.0}
    np.testing.assert_array_equal(of(rows, "ptgpo", **trees, **PENALISED), of(rows, "ptgpo", **trees))
    inside = of(rows, "ptgpo", **trees, **PENALISED, tree_penalty=True)
    punished = [row | {"reward": row["reward"] - (0.0 if row["valid"] else 0.1)} for row in rows]
    np.testing.assert_allclose(inside, of(punished, "ptgpo", **trees), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", OTHERS)
@given(rows=tables(), step=st.integers(0, 200))
@examples(40)
def test_the_others_are_finite_everywhere_and_silent_outside_the_loss(method, rows, step):
    table = StepTable.from_rows(rows)
    keywords = {
        name: value for name, value in {"step": step, "total_steps": 150}.items() if name in settings_fields(method)
    }
    result = compute(table, method, **PENALISED, **keywords)
    assert np.isfinite(result).all() and result.shape == (len(rows),)
    counted = loss_rows(table, method, **keywords)
    assert counted is None or not result[~counted].any()


@given(rows=tables())
@examples(40)
def test_empg_without_its_weights_is_grpo(rows):
    close(of(rows, "empg", k=0.0, zeta=0.0, centre=False), of(rows, "grpo"))


@given(rows=tables(), seed=st.integers(0, 1000))
@examples(40)
def test_ppo_does_not_depend_on_the_order_of_rows_nor_on_groups(rows, seed):
    order = list(range(len(rows)))
    random.Random(seed).shuffle(order)
    expected = of(rows, "ppo", **PENALISED)
    close(of([rows[i] for i in order], "ppo", **PENALISED), expected[order])
    close(of([row | {"group": row["trajectory"]} for row in rows], "ppo", **PENALISED), expected)
    assert np.isfinite(expected).all() and abs(expected.mean()) < 1e-6


@given(rows=tables(), gamma=st.sampled_from([0.5, 0.95, 1.0]), lam=st.sampled_from([0.0, 0.5, 1.0]))
@examples(40)
def test_ppo_of_a_perfect_critic_is_zero(rows, gamma, lam):
    """Where every value is the return that follows, no turn did better than expected."""
    table = StepTable.from_rows(rows)
    exact = discounted_sum(table, table.reward, gamma)
    known = [row | {"value": value} for row, value in zip(rows, exact.tolist(), strict=True)]
    got = of(known, "ppo", gamma=gamma, lam=lam, norm_mode="none")
    assert np.abs(got).max() <= 1e-9 * (1 + np.abs(exact).max())
    np.testing.assert_allclose(
        value_targets(StepTable.from_rows(known), "ppo", gamma=gamma, lam=lam), exact, rtol=1e-9, atol=1e-9
    )


@given(rows=tables())
@examples(40)
def test_the_share_that_a_critic_explains(rows):
    table = StepTable.from_rows(rows)
    exact = discounted_sum(table, table.reward, 1.0)
    known = [row | {"value": value} for row, value in zip(rows, exact.tolist(), strict=True)]
    stats = compute_with_stats(StepTable.from_rows(known), "ppo")[1]
    flat = [row | {"value": 2.5} for row in rows]
    if exact.std() > 1e-3:
        assert stats["value_explained_variance"] == pytest.approx(1.0, abs=1e-6)
        assert compute_with_stats(StepTable.from_rows(flat), "ppo")[1]["value_explained_variance"] == pytest.approx(
            0.0, abs=1e-6
        )
    assert stats["value_mean"] == pytest.approx(stats["value_target_mean"])


@given(rows=tables())
@examples(40)
def test_ppo_with_lambda_one_is_the_return_less_the_value(rows):
    table = StepTable.from_rows(rows)
    expected = discounted_sum(table, table.reward, 1.0) - table.extra["value"]
    got = compute(table, "ppo", norm_mode="none")
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max()))


@given(rows=tables(), length=st.integers(1, 50), turns=st.integers(1, 5))
@examples(40)
def test_planpo_with_equal_lengths_is_grpo(rows, length, turns):
    """Same turns and response lengths everywhere: the episode term of 1[success] R / T is that of 1[success] R."""
    flat = [
        {**row, "trajectory": (row["trajectory"], row["turn"]), "turn": t, "response_length": length, "valid": True,
         "reward": 10.0 * row["success"] * (t == turns - 1)}
        for row in rows for t in range(turns)
    ]  # fmt: skip
    close(of(flat, "planpo", norm_eps=0.0), of(flat, "grpo", norm_eps=0.0))
