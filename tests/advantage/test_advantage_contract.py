"""The contract suite over our own methods, and over functions that break it."""

import itertools

import numpy as np
import pytest

from agentrl.advantage import METHODS
from agentrl.advantage.contract import check_advantage

MIXING = {"empg", "ppo"}
SETTINGS = {"terms": {"terms": {"episode": 1.0, "state_group": 0.5, "prefix_tree": 0.5, "response": 0.1}}}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_our_methods_keep_it(name):
    check_advantage(name, mixes_tasks=name in MIXING, invalid_action_penalty=0.1, **SETTINGS.get(name, {}))


def first_turn(table, s):
    return np.where(table.turn == 0, table.reward, 0.0)


def of_one_column(table, s):
    return table.reward[:, None]


def whole_numbers(table, s):
    return np.zeros(len(table), dtype=np.int64)


def not_finite(table, s):
    return table.reward / 0.0 if len(table) else np.zeros(0)


def changes_the_table(table, s):
    table.reward[:] = table.reward + 1.0
    return table.reward.copy()


def knows_the_order(table, s):
    return np.arange(len(table), dtype=np.float64)


def knows_the_codes(table, s):
    return table.state.astype(np.float64)


def knows_the_names(table, s):
    return np.array([float(str(table.labels["action"][a]).endswith("]")) for a in table.action])


def mixes_tasks(table, s):
    return table.reward - (table.reward.mean() if len(table) else 0.0)


CALLS = itertools.count()


def remembers(table, s):
    return table.reward * 0.0 + next(CALLS)


def test_a_function_that_keeps_it():
    check_advantage(f"{__name__}:first_turn")


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (of_one_column, "shape"),
        (whole_numbers, "int64, not float64"),
        (not_finite, "inf|nan"),
        (changes_the_table, "changed the table's column 'reward'"),
        (knows_the_order, "order of the rows"),
        (knows_the_codes, "order of the rows|names of"),
        (knows_the_names, "names of"),
        (mixes_tasks, "depends on the others"),
        (remembers, "second call"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_functions_that_break_it(function, said):
    with pytest.raises((AssertionError, ValueError), match=said):
        check_advantage(f"{__name__}:{function.__name__}")


def test_mixing_tasks_can_be_allowed():
    check_advantage(f"{__name__}:mixes_tasks", mixes_tasks=True)
