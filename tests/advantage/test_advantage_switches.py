"""Switches by small tables worked out by hand: presets, penalty modes, anchors, action identity, aggregation."""

import random
from difflib import SequenceMatcher

import numpy as np
import pytest
from advantage_tables import random_rows

from agentrl.advantage import METHODS, StepTable, compute, loss_rows
from agentrl.advantage.anchors import action_codes, anchor_groups
from agentrl.advantage.pta_grpo import PtaSettings, pairs


def table(*trajectories, **columns):
    """Rows (state, action, reward[, valid]); one task unless a trajectory begins with a task name."""
    rows = []
    for i, turns in enumerate(trajectories):
        for t, (state, action, reward, *valid) in enumerate(turns):
            rows.append({"group": "task", "trajectory": i, "turn": t, "reward": reward, "state": state,
                         "action": action, "valid": valid[0] if valid else True})  # fmt: skip
    for name, values in columns.items():
        for row, value in zip(rows, values, strict=True):
            row[name] = value
    return StepTable.from_rows(rows)


EXACT = {"norm_eps": 0.0}


def test_statistics_over_steps_weigh_long_trajectories():
    t = table([("s", "a", 0.0), ("s", "a", 0.0), ("s", "a", 1.0)], [("s", "a", 0.0)])
    np.testing.assert_allclose(compute(t, "grpo", norm_mode="mean"), [0.5, 0.5, 0.5, -0.5])
    np.testing.assert_allclose(compute(t, "grpo", norm_mode="mean", stat_unit="step"), [0.25, 0.25, 0.25, -0.75])


def test_global_penalty_is_part_of_the_return_and_local_stays_on_its_row():
    t = table([("s0", "a", 0.0), ("s1", "?", 0.0, False), ("s2", "a", 1.0)],
              [("s0", "b", 0.0), ("s1", "c", 0.0), ("s2", "c", 0.0)])  # fmt: skip
    common = {"invalid_action_penalty": 0.2, "norm_mode": "mean"}
    # Outcomes 0.8 and 0, mean 0.4; local: 1 and 0, mean 0.5, and 0.2 less for the invalid row alone.
    np.testing.assert_allclose(compute(t, "grpo", **common), [0.4, 0.4, 0.4, -0.4, -0.4, -0.4])
    np.testing.assert_allclose(compute(t, "grpo", **common, penalty_mode="local"), [0.5, 0.3, 0.5, -0.5, -0.5, -0.5])
    step = compute(t, "gigpo", **common, gamma=0.5, episode_weight=0.0)
    np.testing.assert_allclose(step, np.array([0.15, 0.3, 1.0, -0.15, -0.3, -1.0]) / 2)
    step = compute(t, "gigpo", **common, gamma=0.5, episode_weight=0.0, penalty_mode="local")
    np.testing.assert_allclose(step, np.array([0.25, 0.3, 1.0, -0.25, -0.3, -1.0]) / 2)


def test_preset_sets_the_switches_and_keywords_win():
    t = table([("s0", "a", 0.0), ("s1", "?", 0.0, False), ("s2", "a", 1.0)], [("s0", "b", 0.0)])
    keywords = {"invalid_action_penalty": 0.2, "gamma": 0.5}
    by_hand = compute(t, "gigpo", **keywords, stat_unit="step", penalty_mode="local", norm_floor=0.0, singleton="raw")
    np.testing.assert_array_equal(compute(t, "gigpo", preset="verl_agent", **keywords), by_hand)
    np.testing.assert_array_equal(
        compute(t, "gigpo", preset="verl_agent", stat_unit="trajectory", penalty_mode="global", norm_floor=1e-5,
                singleton="zero", **keywords),
        compute(t, "gigpo", **keywords),
    )  # fmt: skip
    np.testing.assert_array_equal(compute(t, "gigpo", preset="none"), compute(t, "gigpo"))


def test_preset_keeps_the_raw_score_of_a_single_row():
    t = table([("s", "a", 3.0)])
    assert compute(t, "grpo") == 0.0
    assert compute(t, "grpo", preset="verl_agent") == pytest.approx(3.0 / (1 + 1e-6), rel=1e-12)
    assert compute(t, "gigpo", preset="verl_agent", norm_mode="mean") == 3.0  # the state term stays 0


def test_floor():
    t = table([("s", "a", 1.0)], [("s", "a", 1.0 + 1e-6)])
    assert not compute(t, "grpo").any()
    assert not compute(t, "grpo", norm_mode="mean").any()
    np.testing.assert_allclose(compute(t, "grpo", norm_floor=1e-9, **EXACT), [-(0.5**0.5), 0.5**0.5], rtol=1e-9)


def test_gigpo_discount_and_repeats_inside_a_trajectory():
    t = table([("s", "a", 0.0), ("s", "a", 1.0)])
    # One trajectory, one state twice: returns 0.5 and 1, mean 0.75, std sqrt(0.125); the episode term is 0.
    np.testing.assert_allclose(compute(t, "gigpo", gamma=0.5, **EXACT), [-(0.5**0.5), 0.5**0.5])


def test_gigpo_groups_similar_states():
    near = "You are in the kitchen. You see a red apple."
    t = table([(near, "a", 1.0)], [(near.replace("red", "rid"), "a", 0.0)], [("Somewhere else.", "a", 0.0)])
    groups, count = anchor_groups(t, 0.9)
    assert groups[0] == groups[1] != groups[2]
    assert count == 2
    apart = compute(t, "gigpo", episode_weight=0.0)
    assert not apart.any()
    together = compute(t, "gigpo", episode_weight=0.0, similarity=0.9, **EXACT)
    np.testing.assert_allclose(together, [0.5**0.5, -(0.5**0.5), 0.0])
    np.testing.assert_array_equal(compute(t, "gigpo", similarity=1.0), compute(t, "gigpo"))


def test_similarity_is_that_of_difflib_and_long_texts_have_no_junk():
    text = "the quick brown fox jumps over the lazy dog. " * 8  # over 200 characters: every letter is "popular"
    other = text.replace("fox", "cat")
    ratio = SequenceMatcher(None, text, other, autojunk=False).ratio()
    t = table([(text, "a", 1.0)], [(other, "a", 0.0)])
    assert anchor_groups(t, ratio - 1e-9)[1] == 1
    assert anchor_groups(t, ratio + 1e-9)[1] == 2
    anagrams = table([("abcdef", "a", 1.0)], [("fedcba", "a", 0.0)])  # the quick bound is 1, the ratio 1/6
    assert anchor_groups(anagrams, 0.3)[1] == 2


def test_similarity_bounds_never_change_the_clusters():
    """Against difflib alone, on random texts that are often nearly alike."""
    rng = random.Random(0)
    for _ in range(60):
        base = "".join(rng.choice("abcd ") for _ in range(rng.randint(1, 40)))
        texts = ["".join(rng.choice("abcd ") if rng.random() < 0.2 else c for c in base) for _ in range(8)]
        threshold = rng.choice([0.5, 0.7, 0.8, 0.9])
        firsts, expected = [], {}
        for text in sorted(set(texts)):
            alike = [f for f in firsts if SequenceMatcher(None, f, text, autojunk=False).ratio() >= threshold]
            expected[text] = alike[0] if alike else text
            firsts += [] if alike else [text]
        groups, count = anchor_groups(table(*[[(text, "a", 0.0)] for text in texts]), threshold)
        assert count == len(firsts)
        for i, one in enumerate(texts):
            for j, other in enumerate(texts):
                assert (groups[i] == groups[j]) == (expected[one] == expected[other])


def test_similar_states_of_other_tasks_stay_apart():
    rows = [{"group": g, "trajectory": (g, i), "turn": 0, "reward": float(i), "state": f"room number {i}",
             "action": "a"} for g in ("x", "y") for i in (0, 1)]  # fmt: skip
    groups, count = anchor_groups(StepTable.from_rows(rows), 0.8)
    assert count == 2
    assert groups[0] == groups[1] != groups[2] == groups[3]


def test_clusters_do_not_depend_on_row_order():
    texts = ["abcdefgh", "abcdefgx", "abcdefxx", "abcdexxx", "abcdxxxx", "abcxxxxx"]
    rows = [{"group": 0, "trajectory": i, "turn": 0, "reward": float(i), "state": s, "action": "a"}
            for i, s in enumerate(texts)]  # fmt: skip
    one = compute(StepTable.from_rows(rows), "gigpo", similarity=0.75)
    other = compute(StepTable.from_rows(rows[::-1]), "gigpo", similarity=0.75)
    np.testing.assert_allclose(one, other[::-1], rtol=1e-12)


def branches(t, **keys):
    codes, _ = action_codes(t, keys.get("action_key", "parsed"), keys.get("invalid_key", "merge"))
    return [codes.tolist().index(code) for code in codes.tolist()]  # each row's first row with the same action


def test_action_identity():
    t = table([("s", "buy", 0.0), ("s", "buy", 0.0), ("s", "<invalid>", 0.0, False), ("s", "<invalid>", 0.0, False),
               ("s", "buy", 0.0, False)],
              raw_action=["I think buy", "buy!", "hm", "oh", "hm"])  # fmt: skip
    assert branches(t) == [0, 0, 2, 2, 2]
    assert branches(t, invalid_key="text") == [0, 0, 2, 3, 2]
    assert branches(t, action_key="raw") == [0, 1, 2, 2, 2]
    assert branches(t, action_key="raw", invalid_key="text") == [0, 1, 2, 3, 2]


def test_invalid_actions_are_one_branch():
    t = table([("s", "x1", 1.0, False)], [("s", "x2", 0.0, False)], [("s", "b", 0.0)])
    trees = {"gamma": 1.0, "episode_weight": 0.0}
    sigma = (1 / 3) ** 0.5
    np.testing.assert_allclose(compute(t, "ptgpo", **trees), np.array([1 / 6, 1 / 6, -1 / 3]) / sigma)
    np.testing.assert_allclose(compute(t, "ptgpo", **trees, invalid_key="text"),
                               np.array([2 / 3, -1 / 3, -1 / 3]) / sigma)  # fmt: skip


def test_aggregates():
    """Both turns of every trajectory are in a shared state: the second action gets credit from two starts."""
    t = table([("s0", "a", 0.0), ("s1", "b", 1.0)], [("s0", "a", 0.0), ("s1", "c", 0.0)],
              [("s0", "d", 0.0), ("s4", "e", 0.0)], [("s0", "d", 0.0), ("s4", "e", 0.0)])  # fmt: skip
    trees = {"gamma": 1.0, "episode_weight": 0.0}
    far, near = 1.0, 0.5 / 0.5**0.5  # from s0 at depth 1, from s1 at depth 0
    first = [0.5, 0.5, -0.5, -0.5]
    for aggregate, second in (("sum", far + near), ("mean", (far + near) / 2), ("nearest", near)):
        result = compute(t, "ptgpo", **trees, aggregate=aggregate)
        np.testing.assert_allclose(result, [first[0], second, first[1], -second, first[2], 0, first[3], 0], atol=1e-12)


def test_ended_suffixes_stay_in_the_parents_mean():
    t = table([("s", "a", 1.0)], [("s", "a", 0.0), ("u", "b", 0.0)], [("s", "a", 0.0), ("v", "c", 0.5)])
    result = compute(t, "ptgpo", gamma=1.0, episode_weight=0.0)
    sigma = 0.5  # of returns 1, 0, 0.5; node "a" holds all three, mean 0.5, so its edge has Delta 0
    np.testing.assert_allclose(result, np.array([0, 0, -0.5, 0, 0.0]) / sigma, atol=1e-12)


def test_a_node_is_expanded_by_all_its_rows_ended_ones_included():
    t = table([("s", "a", 1.0)], [("s", "a", 0.0), ("u", "b", 0.0)])
    result = compute(t, "ptgpo", gamma=1.0, episode_weight=0.0, tau_expand=2)
    np.testing.assert_allclose(result, [0, 0, -(0.5**0.5)])


def test_max_depth_counts_edges():
    t = table([("s", "a", 0.0), ("u", "b", 0.0), ("w", "e", 1.0)], [("s", "a", 0.0), ("v", "c", 0.0), ("x", "e", 0.0)])

    def nonzero(depth):
        return np.flatnonzero(compute(t, "ptgpo", gamma=1.0, episode_weight=0.0, max_depth=depth)).tolist()

    assert (nonzero(0), nonzero(1), nonzero(2)) == ([], [], [1, 4])
    assert nonzero(None) == [1, 4]  # the nodes after b and c hold one row each


def test_terminal_reward_or_sum():
    t = table([("s", "a", 5.0), ("s", "a", 1.0)], [("s", "a", 0.0), ("s", "a", 2.0)])
    common = {"tree_weight": 0.0, "norm_mode": "mean"}
    np.testing.assert_allclose(compute(t, "ptgpo", **common), [-0.5, -0.5, 0.5, 0.5])
    np.testing.assert_allclose(compute(t, "ptgpo", **common, episode_reward="sum"), [2, 2, -2, -2])


def test_every_invalid_action_costs_in_the_episode_term_of_ptgpo():
    t = table([("s", "?", 0.0, False), ("s", "a", 1.0)], [("s", "a", 0.0), ("s", "a", 1.0)])
    result = compute(t, "ptgpo", tree_weight=0.0, norm_mode="mean", invalid_action_penalty=0.1)
    np.testing.assert_allclose(result, [-0.05, -0.05, 0.05, 0.05])


def test_the_random_step_lies_between_the_first_and_the_last():
    lengths = {"a": 1, "b": 2, "c": 3, "d": 9}
    rows = [
        {"group": 0, "trajectory": name, "turn": turn, "reward": float(turn), "state": "s", "action": "a"}
        for name, length in lengths.items()
        for turn in range(length)
    ]
    seen = {name: set() for name in lengths}
    for step in range(60):
        for table_rows in (rows, rows[::-1]):
            table = StepTable.from_rows(table_rows)
            counted = loss_rows(table, "first_step_grpo", updated="random", step=step)
            chosen = [(row["trajectory"], row["turn"]) for row, yes in zip(table_rows, counted, strict=True) if yes]
            assert sorted(name for name, _ in chosen) == sorted(lengths)
            if table_rows is rows:
                expected = dict(chosen)
            assert dict(chosen) == expected  # whatever the order of the rows
        for name, turn in expected.items():
            seen[name].add(turn)
    assert seen == {"a": {0}, "b": {0, 1}, "c": {1}, "d": {1, 2, 3, 4, 5, 6, 7}}


def test_turns_may_be_counted_from_one():
    rng = random.Random(3)
    for _ in range(20):
        rows = random_rows(rng)
        later = [row | {"turn": row["turn"] + 1} for row in rows]
        for name in sorted(METHODS):
            keywords = {"terms": ["episode", "prefix_tree"]} if name == "terms" else {}
            one, other = StepTable.from_rows(rows), StepTable.from_rows(later)
            np.testing.assert_array_equal(compute(one, name, **keywords), compute(other, name, **keywords))
            counted = [loss_rows(table, name, **keywords) for table in (one, other)]
            np.testing.assert_array_equal(*counted) if counted[0] is not None else None


def test_a_plan_that_the_judge_did_not_score_is_not_in_the_loss():
    rows = [
        {"group": 0, "trajectory": t, "turn": turn, "reward": 0.0, "state": "s", "action": "a", "rubric": rubric}
        for t, rubric in enumerate([0.2, -1.0, 0.8])
        for turn in range(2)
    ]
    table = StepTable.from_rows(rows)
    assert loss_rows(table, "anchor_grpo", stage=1).tolist() == [True, False, False, False, True, False]
    assert loss_rows(table, "anchor_grpo", stage=1, reward="sparse").tolist() == [True, False] * 3
    assert loss_rows(table, "anchor_grpo", stage=2).all()
    values = compute(table, "anchor_grpo", stage=1)
    assert values[0] == -values[4] != 0 and not values[[1, 2, 3, 5]].any()


def test_every_response_is_as_near_as_can_be_where_the_longest_is_the_shortest_right_one():
    rows = [
        {"group": 0, "trajectory": t, "turn": 0, "reward": 0.0, "state": "s", "action": "a", "plan": "p",
         "success": right, "response_length": length}
        for t, (right, length) in enumerate([(True, 9), (True, 9), (False, 4)])
    ]  # fmt: skip
    settings = PtaSettings(alpha=0.3)
    assert pairs(StepTable.from_rows(rows), settings).length.tolist() == [0.3, 0.3, 0.3]
    wrong = [row | {"success": False} for row in rows]
    assert pairs(StepTable.from_rows(wrong), settings).length.tolist() == [0.0, 0.0, 0.0]
