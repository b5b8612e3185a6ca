"""Against the naive implementation, to 1e-9 (relative to the size of the advantage), on many random tables."""

import random

import advantage_naive as naive
import numpy as np
import pytest
from advantage_tables import random_rows

from agentrl.advantage import StepTable, compute, value_targets

CHUNKS = range(10)
PER_CHUNK = 80


def same(got, expected):
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def tables(chunk, count=PER_CHUNK):
    rng = random.Random(chunk)
    for _ in range(count):
        rows = random_rows(rng)
        # The penalty follows the size of the rewards: 0.1 beside 1e6 would leave too few digits to compare to 1e-9.
        yield rng, rows, rng.choice([0.0, 0.1]) * max(1.0, *(abs(row["reward"]) for row in rows))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_grpo(chunk):
    for rng, rows, penalty in tables(chunk):
        norm = {"mode": rng.choice(["mean_std", "mean"]), "ddof": rng.choice([0, 1]), "eps": rng.choice([0.0, 1e-6])}
        got = compute(StepTable.from_rows(rows), "grpo", invalid_action_penalty=penalty,
                      norm_mode=norm["mode"], norm_ddof=norm["ddof"], norm_eps=norm["eps"])  # fmt: skip
        same(got, naive.grpo(rows, penalty, **norm))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_gigpo(chunk):
    for rng, rows, penalty in tables(chunk):
        gamma, omega = rng.choice([0.0, 0.5, 0.95, 1.0]), rng.choice([0.0, 0.8, 1.0])
        mode = rng.choice(["mean_std", "mean"])
        got = compute(StepTable.from_rows(rows), "gigpo", gamma=gamma, omega=omega, norm_mode=mode,
                      invalid_action_penalty=penalty)  # fmt: skip
        same(got, naive.gigpo(rows, gamma, omega, penalty, mode=mode))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_ptgpo(chunk):
    for rng, rows, penalty in tables(chunk):
        options = {
            "gamma": rng.choice([0.0, 0.5, 0.95, 1.0]),
            "max_depth": rng.choice([None, None, 0, 1, 2, 4]),
            "aggregate": rng.choice(["sum", "sum", "mean", "nearest"]),
            "tree_penalty": rng.random() < 0.3,
            "episode_reward": rng.choice(["terminal", "sum"]),
        }
        tau, ddof = rng.choice([1, 2, 2, 3, 4]), rng.choice([0, 1])
        merge = rng.random() < 0.7
        got = compute(StepTable.from_rows(rows), "ptgpo", tau_expand=tau, norm_ddof=ddof, **options,
                      invalid_action_penalty=penalty, invalid_key="merge" if merge else "text")  # fmt: skip
        same(got, naive.ptgpo(rows, tau=tau, ddof=ddof, penalty=penalty, merge=merge, **options))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_preset_verl_agent(chunk):
    for rng, rows, penalty in tables(chunk):
        gamma, omega, mode = rng.choice([0.95, 1.0]), rng.choice([0.5, 1.0]), rng.choice(["mean_std", "mean"])
        if has_round_off(rows, gamma, penalty):
            continue
        table = StepTable.from_rows(rows)
        got = compute(table, "gigpo", preset="verl_agent", gamma=gamma, omega=omega, norm_mode=mode,
                      invalid_action_penalty=penalty)  # fmt: skip
        same(got, naive.verl_agent(rows, gamma, omega, penalty, mode))
        got = compute(table, "grpo", preset="verl_agent", norm_mode=mode, invalid_action_penalty=penalty)
        same(got, naive.verl_agent(rows, penalty=penalty, mode=mode, step=False))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_rloo_and_drgrpo(chunk):
    for rng, rows, penalty in tables(chunk):
        table = StepTable.from_rows(rows)
        same(compute(table, "rloo", invalid_action_penalty=penalty), naive.rloo(rows, penalty))
        ddof = rng.choice([0, 1])
        got = compute(table, "drgrpo", invalid_action_penalty=penalty, norm_ddof=ddof)
        same(got, naive.grpo(rows, penalty, mode="mean", ddof=ddof))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_planpo(chunk):
    for rng, rows, _ in tables(chunk):
        per_turn, everyone = rng.random() < 0.5, rng.random() < 0.5
        penalty, alpha, mode = rng.choice([0.0, 0.1]), rng.choice([0.0, 0.1, 1.0]), rng.choice(["mean_std", "mean"])
        got = compute(StepTable.from_rows(rows), "planpo", alpha=alpha, norm_mode=mode, invalid_action_penalty=penalty,
                      turn_group="per_turn" if per_turn else "flat", members="all" if everyone else "success")  # fmt: skip
        same(got, naive.planpo(rows, alpha, penalty, per_turn, everyone, mode=mode))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_ppo(chunk):
    for rng, rows, penalty in tables(chunk):
        table = StepTable.from_rows(rows)
        naively = {
            "gamma": rng.choice([0.0, 0.5, 0.95, 1.0]),
            "lam": rng.choice([0.0, 0.5, 0.95, 1.0]),
            "penalty": penalty,
            "local": rng.random() < 0.5,
            "shaping": rng.choice(["none", "success", "unconditional"]),
            "alpha": rng.choice([0.0, 0.1, 1.0]),
        }
        keywords = {name: naively[name] for name in ("gamma", "lam", "shaping", "alpha")}
        keywords |= {"invalid_action_penalty": penalty, "penalty_mode": "local" if naively["local"] else "global"}
        expected = np.array(naive.gae(rows, **naively))
        scale = 1 + np.abs(expected).max()
        got = compute(table, "ppo", norm_mode="none", **keywords)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * scale)
        targets = value_targets(table, "ppo", **keywords)
        np.testing.assert_allclose(targets, expected + [r["value"] for r in rows], rtol=1e-9, atol=1e-9 * scale)
        whole = [naive.normed(a, expected.tolist()) for a in expected]
        np.testing.assert_allclose(compute(table, "ppo", **keywords), whole, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("chunk", CHUNKS)
def test_first_step_and_anchor(chunk):
    for rng, rows, penalty in tables(chunk):
        table = StepTable.from_rows(rows)
        last = rng.random() < 0.5
        keywords = {"invalid_action_penalty": penalty, "updated": "last" if last else "first"}
        same(compute(table, "first_step_grpo", **keywords), naive.first_step(rows, penalty, last))
        late = compute(table, "first_step_grpo", stage1_steps=5, step=5, **keywords)
        same(late, naive.grpo(rows, penalty))
        same(compute(table, "anchor_grpo", stage=1), naive.anchor_stage1(rows))
        same(compute(table, "anchor_grpo", stage=1, reward="naive"), naive.anchor_stage1(rows, "plan_score"))
        same(compute(table, "anchor_grpo", stage=2, invalid_action_penalty=0), naive.grpo(rows))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_pta_grpo(chunk):
    for rng, rows, _ in tables(chunk):
        options = {"beta": rng.choice([0.0, 1.0]), "temperature": rng.choice([0.5, 1.0]), "alpha": rng.choice([0, 0.1])}
        raw, longest = rng.random() < 0.5, rng.choice([None, 500])
        got = compute(StepTable.from_rows(rows), "pta_grpo", analytic="raw" if raw else "softmax", max_length=longest,
                      **options)  # fmt: skip
        same(got, naive.pta(rows, raw=raw, longest=longest, **options))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_empg(chunk):
    for rng, rows, penalty in tables(chunk):
        options = {name: rng.choice([0.0, 0.5, 1.0]) for name in ("k", "k_future", "zeta")}
        options["centre"] = rng.random() < 0.5
        got = compute(StepTable.from_rows(rows), "empg", invalid_action_penalty=penalty, **options)
        same(got, naive.empg(rows, penalty=penalty, **options))


@pytest.mark.parametrize("chunk", CHUNKS)
def test_dapo(chunk):
    for rng, rows, penalty in tables(chunk):
        limit, buffer, factor = rng.choice([300, 400]), rng.choice([50, 300]), rng.choice([0.5, 1.0])
        got = compute(StepTable.from_rows(rows), "dapo", overlong_limit=limit, overlong_buffer=buffer,
                      overlong_factor=factor, invalid_action_penalty=penalty)  # fmt: skip
        same(got, naive.dapo(rows, limit, buffer, factor, penalty))
        same(compute(StepTable.from_rows(rows), "dapo"), naive.grpo(rows))


def has_round_off(rows, gamma, penalty):
    """The public code has no floor: spreads that are only round-off (below 1e-5) are noise in both, so not compared."""
    options = {"preset": "verl_agent", "gamma": gamma, "invalid_action_penalty": penalty}
    table = StepTable.from_rows(rows)
    with_floor = compute(table, "gigpo", **options, norm_floor=1e-5)
    return not np.allclose(with_floor, compute(table, "gigpo", **options), rtol=0, atol=1e-9)
