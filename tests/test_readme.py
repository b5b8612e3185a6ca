"""What the README says can be typed as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from contextlib import nullcontext as nothing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
METHODS_TEXT = (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")
BLOCKS = {
    re.match(r"# (\w+)(?:/\w+)?\.py", block)[1]: block for block in re.findall(r"```python\n(.*?)```", TEXT, re.S)
}  # type: ignore[index]


@pytest.fixture
def module_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Write a block of the README as a module on the path, for child processes too."""

    def write(block: str, name: str) -> None:
        (tmp_path / f"{name}.py").write_text(BLOCKS[block])
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


def test_the_environment_keeps_the_contract(module_of: Any) -> None:
    from agentrl.environments.contract_suite import check_environment

    module_of("my_env", "readme_guess")
    check_environment("readme_guess:", policy=lambda seen, rng: str(rng.randrange(100)))


def test_the_advantage_is_found_and_computes(module_of: Any) -> None:
    from agentrl.advantage import StepTable, compute

    module_of("my_methods", "readme_methods")
    rows = [
        {"group": "g", "trajectory": t, "turn": k, "reward": float(k == 1 and t == "a"), "state": str(k), "action": "x"}
        for t in ("a", "b")
        for k in range(2)
    ]
    found = compute(StepTable.from_rows(rows), "readme_methods:first_turn", rest=0.1)
    assert np.allclose(found, np.array([1, 0.1, -1, -0.1]) / np.sqrt(2), atol=1e-5)


def test_the_contract_suites_are_called_as_the_readme_says(module_of: Any) -> None:
    module_of("my_methods", "my_methods")
    calls = re.findall(r"^ {4}(from agentrl\.advantage\.contract .*)\n {4}(check_advantage\(.*\))$", TEXT, re.M)
    assert len(calls) == 1
    exec("\n".join(calls[0]), {})


def test_the_samples_are_as_short_as_promised() -> None:
    for name, most in (("my_env", 30), ("my_methods", 20)):
        assert len([line for line in BLOCKS[name].splitlines() if line.strip()]) <= most


def commands() -> list[str]:
    found = re.findall(r"^ {4}python -m agentrl\.main (.*?[^\\])$", TEXT, re.M | re.S)
    return [command.replace("\\\n", " ") for command in found]


@pytest.mark.parametrize("words", [c for c in commands() if c.startswith("+recipe") and "scale=gpu" not in c])
def test_commands_compose(words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "agentrl.main", *shlex.split(words), "--cfg", "job"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def replays() -> list[str]:
    return re.findall(r"^ {4}python -m agentrl\.replay (.*)$", TEXT + METHODS_TEXT, re.M)


def test_replays_are_understood() -> None:
    from agentrl.config.advantage_words import RunMethod, chosen_method
    from agentrl.replay import read

    assert len(replays()) == 4
    for words in replays():
        request = read(shlex.split(words))
        run = RunMethod("gigpo", {"gamma": 0.95}, total_steps=30, max_response_tokens=32, scale="cpu")
        chosen_method(run, request.advantage_words)


def test_every_recipe_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `(\w+)` \|", TEXT, re.M))
    methods, environments = re.search(r"^For (.*) there are recipes with (.*) at the end", TEXT, re.M).groups()
    named |= {f"{m}{e}" for m in re.findall(r"`(\w+)`", methods) for e in re.findall(r"`(\w+)`", environments)}
    assert {path.stem for path in (ROOT / "recipes").glob("*.yaml")} == named


def test_pictures_are_there() -> None:
    for path in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", TEXT):
        assert (ROOT / path).is_file(), path


ABLATIONS = [
    (method.lower().replace("-", "_"), words)
    for method, cell in re.findall(r"^\| ([\w-]+) \| [^|]* \| [^|]* \| (.*) \|$", METHODS_TEXT, re.M)
    for words in re.findall(r"`([^`]+=[^`]*)`", cell)
]


def test_ablations_of_all_papers_are_there() -> None:
    assert {method for method, _ in ABLATIONS} == {"gigpo", "ptgpo", "planpo", "ppo", "pta_grpo", "anchor_grpo"}


@pytest.mark.parametrize(("method", "words"), ABLATIONS)
def test_ablations_of_the_docs_compose(method: str, words: str) -> None:
    from agentrl.config import ConfigError
    from agentrl.config.preflight import preflight
    from agentrl.config.resume import resolve

    if method in ("gigpo", "ptgpo", "planpo", "ppo"):
        config, _ = resolve([f"+recipe={method}_webshop", "scale=cpu", *shlex.split(words)])
        assert config.advantage.name == method
        preflight(config)
    else:  # no episodes give them their columns yet, and that is what is said: the setting itself is known
        with pytest.raises(ConfigError, match="it needs") if not re.search("stage=2|sparse", words) else nothing():
            resolve(["+recipe=grpo_webshop", f"advantage={method}", *shlex.split(words)])


def test_every_method_is_in_the_docs() -> None:
    listed = set(re.findall(r"\| `(\w+)\.py` \|", METHODS_TEXT))
    from agentrl.advantage import METHODS

    assert {name for name, method in METHODS.items() if method.__module__.startswith("agentrl.")} <= listed
