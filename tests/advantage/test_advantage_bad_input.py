"""Every bad input is one plain sentence that names the column or keyword, the rows or value, and the remedy."""

import math
import re

import numpy as np
import pytest

from agentrl.advantage import StepTable, compute, make_settings, settings_fields
from agentrl.advantage.table import REQUIRED


def rows():
    return [
        {"group": f"task{i // 2}", "trajectory": f"t{i}", "turn": turn, "reward": float(i), "state": "s", "action": "a"}
        for i in range(4)
        for turn in range(3)
    ]


def refused(data, *words):
    with pytest.raises(ValueError, match=re.escape(words[0])) as error:
        StepTable.from_rows(data)
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", ["reward", "score"])
def test_not_finite(column, value):
    data = [row | {"score": 0.0} for row in rows()]
    data[5][column] = value
    refused(data, f"'{column}'", "row 5", str(value), "finite")


def test_many_bad_rows_are_counted():
    refused([row | {"reward": math.nan} for row in rows()], "rows 0, 1, 2, 3, 4, ... (12 in all)")


def test_reward_beyond_float64_squares():
    refused([row | {"reward": -1e200} for row in rows()], "'reward'", "-1e+200", "1e+100")


@pytest.mark.parametrize("value", [None, "1.0", [1.0], 1j])
def test_reward_is_not_a_number(value):
    data = rows()
    data[7]["reward"] = value
    refused(data, "'reward'", "row 7", repr(value), "a number")


@pytest.mark.parametrize("column", REQUIRED)
def test_missing_column(column):
    data = rows()
    for row in data:
        del row[column]
    refused(data, f"'{column}'", "missing")
    with pytest.raises(ValueError, match=f"column '{column}' is missing"):
        StepTable.from_columns({name: [row[name] for row in rows()] for name in REQUIRED if name != column})


@pytest.mark.parametrize("column", REQUIRED)
def test_missing_in_some_rows(column):
    data = rows()
    del data[0][column], data[9][column]
    refused(data, f"'{column}'", "rows 0, 9", "missing")


def test_optional_column_in_some_rows_only():
    data = rows()
    data[3]["valid"] = True
    refused(data, "'valid'", "rows 0, 1, 2, 4, 5", "every row or in none")


@pytest.mark.parametrize("column", ["group", "trajectory", "state", "action"])
def test_none_and_unhashable_labels(column):
    data = rows()
    data[2][column] = None
    refused(data, f"'{column}'", "row 2", "None")
    data[2][column] = ["a", "list"]
    refused(data, f"'{column}'", "row 2", "list")


def test_duplicate_turn():
    data = rows()
    refused([*data, dict(data[4])], "'turn'", "turn 1", "'t1'", "twice", "rows 4, 12")


def test_turn_gap():
    data = rows()
    del data[4]
    refused(data, "'turn'", "from 0 to 2", "'t1'", "rows 3, 4")


def test_first_turn_lost():
    data = rows()
    del data[3]
    refused(data, "'turn'", "begins with 1", "'t1'", "0 is expected")
    refused([row | {"turn": row["turn"] + 2} for row in rows()], "begins with 2", "1 is expected")


def test_turns_may_count_from_one():
    zero = compute(StepTable.from_rows(rows()), "ptgpo")
    one = compute(StepTable.from_rows([row | {"turn": row["turn"] + 1} for row in rows()]), "ptgpo")
    np.testing.assert_array_equal(zero, one)


def test_trajectory_in_two_groups():
    data = rows()
    data[4]["group"] = "task1"
    refused(data, "'group'", "'t1'", "'task0'", "'task1'", "row")


@pytest.mark.parametrize("value", [-1, 1.5, "0", None])
def test_turn_is_not_a_count(value):
    data = rows()
    data[0]["turn"] = value
    refused(data, "'turn'", "row")


@pytest.mark.parametrize("value", ["yes", 2, None, math.nan])
def test_flag_is_not_a_flag(value):
    data = [row | {"valid": True} for row in rows()]
    data[6]["valid"] = value
    refused(data, "'valid'", "row 6", "True or False")


def test_columns_of_unequal_length():
    data = {name: [row[name] for row in rows()] for name in REQUIRED}
    data["state"] = data["state"][:-1]
    with pytest.raises(ValueError, match="column 'state' has 11 rows and 'reward' has 12"):
        StepTable.from_columns(data)


def unset(method, keywords, *words):
    with pytest.raises(ValueError, match=re.escape(words[0])) as error:
        compute(StepTable.from_rows(rows()), method, **keywords)
    for word in words:
        assert word in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["grpo", "gigpo", "ptgpo"])
def test_unknown_keyword_names_the_nearest(method):
    unset(method, {"norm_epz": 1e-6}, f"'{method}'", "'norm_epz'", "nearest: 'norm_eps'")


def test_keyword_of_another_method():
    unset("grpo", {"tau_expand": 2}, "'grpo'", "'tau_expand'")
    unset("gigpo", {"turn_group": "flat"}, "'gigpo'", "'turn_group'")


def test_unknown_method_names_the_nearest():
    unset("gipgo", {}, "'gipgo'", "gigpo", "package.module:function")


@pytest.mark.parametrize(("method", "keyword", "value", "allowed"), [
    ("gigpo", "gamma", 1.1, "at least 0 and at most 1"),
    ("gigpo", "gamma", -0.1, "at least 0 and at most 1"),
    ("gigpo", "gamma", math.nan, "at least 0"),
    ("gigpo", "gamma", "0.9", "a number"),
    ("gigpo", "gamma", True, "a number"),
    ("gigpo", "gamma", None, "a number"),
    ("gigpo", "omega", -1, "at least 0"),
    ("gigpo", "similarity", 0.0, "above 0"),
    ("gigpo", "similarity", 1.5, "at most 1"),
    ("grpo", "norm_mode", "std", "mean_std, mean"),
    ("grpo", "norm_ddof", 2, "an integer of at least 0 and at most 1"),
    ("grpo", "norm_ddof", 1.0, "an integer"),
    ("grpo", "norm_eps", math.inf, "at least 0"),
    ("grpo", "norm_floor", -1e-5, "at least 0"),
    ("grpo", "stat_unit", "traj", "trajectory, step"),
    ("grpo", "invalid_action_penalty", -0.1, "at least 0"),
    ("grpo", "penalty_mode", "late", "global, local"),
    ("grpo", "preset", "verl", "verl_agent"),
    ("ptgpo", "tau_expand", 0, "an integer of at least 1"),
    ("ptgpo", "tau_expand", 2.5, "an integer"),
    ("ptgpo", "max_depth", -1, "an integer of at least 0, or null"),
    ("ptgpo", "aggregate", "max", "sum, mean, nearest"),
    ("ptgpo", "tree_penalty", 1, "True, False"),
    ("ptgpo", "action_key", "text", "parsed, raw"),
])  # fmt: skip
def test_values_that_are_not_allowed(method, keyword, value, allowed):
    unset(method, {keyword: value}, f"'{keyword}'", f"'{method}'", repr(value), allowed)


@pytest.mark.parametrize("path", ["no.such.module:f", "math:no_such", ":f", "math:"])
def test_import_path_that_leads_nowhere(path):
    unset(path, {}, repr(path), "cannot be imported")


def test_import_path_of_something_else():
    unset("math:pi", {}, "float", "(table, settings)")
    unset("json:loads", {}, "parameters", "(table, settings)")


def test_every_default_is_allowed():
    for method in ("grpo", "gigpo", "ptgpo"):
        defaults = {name: field.default for name, field in settings_fields(method).items()}
        assert make_settings(method, **defaults) == make_settings(method)


def test_numpy_numbers_and_arrays_are_fine():
    data = {name: np.array([row[name] for row in rows()]) for name in REQUIRED}
    table = StepTable.from_columns(data)
    expected = compute(StepTable.from_rows(rows()), "gigpo", gamma=0.5)
    np.testing.assert_array_equal(compute(table, "gigpo", gamma=np.float32(0.5)), expected)
    np.testing.assert_array_equal(compute(table, "ptgpo", tau_expand=np.int64(2)), compute(table, "ptgpo"))
