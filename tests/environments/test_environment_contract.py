"""The checks of one plugin's parts, and finding plugins."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import corridor_plugin
import numpy as np
import pytest

from agentrl.config.errors import ConfigError
from agentrl.environments.contract import ContractError, check_plugin, check_reset, check_step, check_tasks
from agentrl.environments.registry import available_environments, load_environment


def info(**changes: Any) -> dict[str, Any]:
    page = corridor_plugin.make()
    _, plain = page.reset(seed=1, options={"task_id": "train/0"})
    return {**plain, **changes}


def test_numpy_values_become_plain() -> None:
    seen = check_step(
        ("a", np.float32(0.5), np.bool_(True), False, info(success=np.bool_(True), score=np.float64(1))), "x"
    )
    assert (type(seen.reward), type(seen.terminated)) == (float, bool)
    assert (type(seen.info["success"]), type(seen.info["score"])) == (bool, float)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ("page", r"reset must return \(observation, info\), but returned a str"),
        ((b"page", info()), "observation as a str, but returned a bytes"),
        (("page", None), "info as a dict, but returned a NoneType"),
        (("page", info(score=True)), "info\\['score'\\] of reset must be a number from 0 to 1, but is True"),
        (("page", info(score=float("nan"))), "must lie in 0..1, but is nan"),
        (("page", info(state_key=("a", 1))), "info\\['state_key'\\] of reset must be a str"),
        (("page", info(action_valid=1)), "info\\['action_valid'\\] of reset must be a bool, but is 1"),
        (("page", info(admissible_actions="left")), "must be a list of str or None"),
        (("page", {k: v for k, v in info().items() if k != "admissible_actions"}), "lacks 'admissible_actions'"),
    ],
)
def test_reset_refused(result: Any, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        check_reset(result, "x")


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (("page", 0.0, False, info()), "but returned a tuple of 4"),
        (("page", "1", False, False, info()), "a finite reward, but returned '1'"),
        (("page", float("inf"), False, False, info()), "a finite reward, but returned inf"),
        (("page", 0.0, 0, False, info()), "terminated as a bool, but returned 0"),
    ],
)
def test_step_refused(result: Any, words: str) -> None:
    with pytest.raises(ContractError, match=words):
        check_step(result, "x")


class Empty:
    env_id = "Empty-v0"
    prompts = {"compact": 3}


def test_plugin_refused() -> None:
    with pytest.raises(ContractError, match="must have the function `make"):
        check_plugin(Empty(), "x")
    with pytest.raises(ContractError, match="must have `env_id`, a str"):
        check_plugin(object(), "x")
    broken = type("Prompts", (Empty,), {"make": lambda self: 1, "tasks": lambda self, split: 1})()
    with pytest.raises(ContractError, match="prompts\\['compact'\\] must be a str"):
        check_plugin(broken, "x")


def test_tasks_refused() -> None:
    with pytest.raises(ContractError, match="ids holds 'a' more than once"):
        check_tasks(corridor_plugin.Tasks(["a", "a"], "f"), "x", "train")
    with pytest.raises(ContractError, match="fingerprint must be a non-empty str"):
        check_tasks(corridor_plugin.Tasks(["a"], ""), "x", "train")


def install(folder: Path, name: str, path: str, source: str) -> None:
    """A real installed distribution, as pip leaves it: a module and metadata with an entry point."""
    (folder / f"{name}_package.py").write_text(source)
    metadata = folder / f"{name}_env-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-env\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[agentrl.environments]\n{name} = {path}\n")


def test_discovery_imports_only_what_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "mine", "corridor_plugin", "")
    install(tmp_path, "bad", "bad_package", "raise RuntimeError('no display')")
    monkeypatch.syspath_prepend(tmp_path)
    assert {"mine": "corridor_plugin", "bad": "bad_package"}.items() <= available_environments().items()
    assert load_environment("mine").env_id == "Corridor-v0"
    assert "bad_package" not in sys.modules
    with pytest.raises(ConfigError, match=r"environment\.name=bad: .*RuntimeError: no display"):
        load_environment("bad")


def test_unknown_environment_names_the_nearest_and_the_remedy() -> None:
    with pytest.raises(ConfigError) as caught:
        load_environment("webshp")
    assert "environment.name=webshp" in str(caught.value)
    assert "Did you mean webshop?" in str(caught.value)
    assert "pip install ./envs/webshop" in str(caught.value)
    with pytest.raises(ConfigError, match=r"entry point of the group agentrl\.environments"):
        load_environment("zzz")


def test_import_path() -> None:
    assert load_environment("corridor_plugin:") is corridor_plugin  # type: ignore[comparison-overlap]
    with pytest.raises(ConfigError, match="cannot be loaded from corridor_plugin:nothing"):
        load_environment("corridor_plugin:nothing")


def test_package_imports_nothing_heavy() -> None:
    code = (
        "import sys, agentrl.environments, agentrl.episode, agentrl.rewards;"
        "print([m for m in ('torch', 'ray', 'transformers', 'vllm', 'verl', 'hydra', 'gymnasium') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True
    )
    assert done.stdout.strip() == "[]"
