"""Finding methods, a user's own function, the contract of settings_fields, stats, and what the package imports."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from advantage_tables import VECTORS

import agentrl.advantage
from agentrl.advantage import (
    METHODS,
    Range,
    StepTable,
    compute,
    compute_with_stats,
    make_settings,
    register,
    settings_fields,
)

# The example of the package's docstring, run as it stands: "your own in less than 20 lines".
EXAMPLE = textwrap.dedent("    from dataclasses" + str(agentrl.advantage.__doc__).split("    from dataclasses", 1)[1])
exec(EXAMPLE, globals())
first_turn = globals()["first_turn"]


def plain(table, settings):
    return table.extra["entropy"] * settings.gamma


def broken(table, settings):
    return np.full(len(table), np.nan)


def short(table, settings):
    return np.zeros(len(table) + 1)


def rows():
    return [
        {"group": i // 4, "trajectory": i, "turn": t, "reward": float(i % 4 == 0 and t == 2), "entropy": float(t),
         "state": "start" if t == 0 else f"s{i}{t}", "action": f"a{i % 2}", "mood": "calm"}
        for i in range(8) for t in range(3)
    ]  # fmt: skip


def test_own_function_by_import_path_with_its_own_keyword():
    assert len(EXAMPLE.strip().splitlines()) < 20
    table, path = StepTable.from_rows(rows()), f"{__name__}:first_turn"
    grpo = compute(table, "grpo")
    np.testing.assert_array_equal(compute(table, path), np.where(table.turn == 0, grpo, 0.0))
    np.testing.assert_allclose(compute(table, path, rest=1.0), grpo)
    with pytest.raises(ValueError, match="'reste'; nearest: 'rest'"):
        compute(table, path, reste=1.0)
    assert settings_fields(path)["rest"] == (float, 0.0, Range(0.0, float("inf")))


def test_own_function_registered():
    register("test_first_turn")(first_turn)
    try:
        table = StepTable.from_rows(rows())
        np.testing.assert_array_equal(compute(table, "test_first_turn"), compute(table, f"{__name__}:first_turn"))
        with pytest.raises(ValueError, match="registered already"):
            register("test_first_turn")(plain)
    finally:
        del METHODS["test_first_turn"]


def test_own_columns_reach_the_function():
    table = StepTable.from_rows(rows())
    np.testing.assert_array_equal(compute(table, f"{__name__}:plain", gamma=0.5), [0.0, 0.5, 1.0] * 8)
    assert table.extra["mood"].tolist() == [0] * 24
    assert table.labels["mood"] == ["calm"]


def test_what_a_function_returns_is_checked():
    table = StepTable.from_rows(rows())
    with pytest.raises(ValueError, match="nan in row 0"):
        compute(table, f"{__name__}:broken")
    with pytest.raises(ValueError, match=r"shape \(25,\) for 24 rows"):
        compute(table, f"{__name__}:short")


def test_settings_fields():
    fields = settings_fields("ptgpo")
    assert fields["gamma"] == (float, 0.95, Range(0.0, 1.0))
    assert fields["aggregate"] == (str, "sum", ("sum", "mean", "nearest"))
    assert fields["max_depth"] == (int, None, Range(0, float("inf"), False, True))
    assert fields["tree_penalty"] == (bool, False, (True, False))
    assert fields["norm_eps"].default == 0.0  # PTGPO's divisions have no eps
    assert settings_fields("gigpo")["norm_eps"].default == 1e-6
    assert set(settings_fields("grpo")) < set(settings_fields("gigpo"))


def test_designed_keywords_are_there():
    common = {
        "gamma",
        "norm_mode",
        "norm_ddof",
        "norm_eps",
        "norm_floor",
        "stat_unit",
        "invalid_action_penalty",
        "preset",
    }
    for method in ("grpo", "gigpo", "ptgpo"):
        assert common <= set(settings_fields(method))
        assert make_settings(method).invalid_action_penalty == 0.0
    assert [make_settings(method).gamma for method in ("grpo", "gigpo", "ptgpo")] == [1.0, 0.95, 0.95]
    assert {"omega"} <= set(settings_fields("gigpo"))
    assert {"tree_penalty", "tau_expand", "max_depth", "aggregate"} <= set(settings_fields("ptgpo"))


def test_a_column_that_a_method_needs():
    table = StepTable.from_rows(rows())
    with pytest.raises(ValueError, match="advantage 'planpo' needs the column 'response_length'"):
        table.require("response_length", "planpo")
    table.require("reward", "planpo")


def test_defaults_of_optional_columns():
    table = StepTable.from_rows(rows())
    assert table.valid.all()
    assert not table.success.any()
    assert table.score.sum() == 0
    assert (table.response_length == 1).all()
    assert table.given == set(rows()[0])
    np.testing.assert_array_equal(table.raw_action, table.action)


def test_stats_by_hand():
    data = [
        {"group": 0, "trajectory": i, "turn": t, "reward": reward, "state": state, "action": action}
        for i, turns in enumerate(VECTORS["ptgpo"]["inputs_a"])
        for t, (state, action, reward) in enumerate(turns)
    ]
    data += [{"group": 1, "trajectory": 9 + i, "turn": 0, "reward": 0.0, "state": "s", "action": "a"} for i in (0, 1)]
    advantage, stats = compute_with_stats(StepTable.from_rows(data), "ptgpo", gamma=1.0)
    assert (stats["rows"], stats["trajectories"], stats["groups"]) == (10, 6, 2)
    assert stats["group_sizes"] == [4, 2]
    assert (stats["group_size_min"], stats["group_size_mean"], stats["group_size_max"]) == (2, 3.0, 4)
    assert stats["state_group_coverage"] == pytest.approx(0.8)  # all but s1 and s1'
    assert stats["state_group_size_mean"] == 2.0  # 10 rows in 5 state groups
    assert stats["zero_advantage_share"] == pytest.approx(0.3)  # 0 for the first turn of the second, and task 1
    assert (stats["zero_signal_groups"], stats["zero_signal_group_share"]) == (1, 0.5)
    assert (stats["advantage_min"], stats["advantage_max"]) == (-1.5, 2.5)
    assert stats["advantage_mean"] == pytest.approx(advantage.mean())
    assert stats["advantage_std"] == pytest.approx(advantage.std())
    assert stats["tree_depth_histogram"] == [2, 2, 1]  # s1, s1' | s4 and task 1 | s0
    assert stats["tree_depth_max"] == 2
    assert stats["tree_row_share"] == 1.0
    assert "tree_depth_histogram" not in compute_with_stats(StepTable.from_rows(data), "gigpo")[1]


@pytest.mark.parametrize("method", ["grpo", "gigpo", "ptgpo"])
def test_empty_table(method):
    result, stats = compute_with_stats(StepTable.from_rows([]), method)
    assert result.shape == (0,)
    assert stats["groups"] == 0
    assert stats["zero_signal_group_share"] == 0.0


def test_inputs_are_left_alone():
    table = StepTable.from_rows(rows())
    before = {name: getattr(table, name).copy() for name in ("reward", "state", "action", "order", "trajectory")}
    for method in ("grpo", "gigpo", "ptgpo"):
        compute(table, method, invalid_action_penalty=0.1)
    for name, column in before.items():
        np.testing.assert_array_equal(getattr(table, name), column)


def test_it_imports_numpy_and_nothing_heavier():
    code = "import sys, agentrl.advantage; print(*sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "numpy" in loaded
    assert not {"torch", "ray", "vllm", "verl", "transformers", "scipy", "pandas", "hydra", "pydantic"} & set(loaded)
