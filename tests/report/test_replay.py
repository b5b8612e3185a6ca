"""`python -m agentrl.replay` on run directories as a run leaves them."""

from __future__ import annotations

import csv
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from agentrl.advantage import StepTable, compute, settings_fields
from agentrl.config import compose_config
from agentrl.replay import main
from agentrl.report.rollouts import Rollouts, write_rollouts

ROOT = Path(__file__).resolve().parents[2]
STEPS, TASKS, MEMBERS, TURNS = 4, 3, 4, 5


def rows_of(step: int, **more: Any) -> list[dict[str, Any]]:
    rng = random.Random(step)
    rows = []
    for trajectory in range(TASKS * MEMBERS):
        success = rng.random() < 0.5
        for turn in range(TURNS):
            rows.append(
                {"group": trajectory // MEMBERS, "trajectory": trajectory, "turn": turn,
                 "reward": 10.0 * (success and turn == TURNS - 1), "state": f"page {rng.randrange(4)}",
                 "action": rng.choice(["search[é]", "click[buy now]"]), "raw_action": f"<action>{turn}</action>",
                 "response_length": rng.randint(1, 30), "valid": rng.random() < 0.9, "success": success,
                 "score": float(success), "entropy": rng.random(), **more}
            )  # fmt: skip
    return rows


def run_directory(folder: Path, *words: str, **more: Any) -> Path:
    """A run's config.yaml and its rollouts, with the advantages that its method gives."""
    config = compose_config([*(words or ("+recipe=gigpo_webshop",)), "scale=cpu", "trainer.total_training_steps=20"])
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    name, settings = config.advantage.name, config.method_settings
    for step in range(1, STEPS + 1):
        rows = rows_of(step, **more)
        progress = {"step": step - 1, "total_steps": 20} if "total_steps" in settings_fields(name) else {}
        advantages = compute(StepTable.from_rows(rows), name, **progress, **settings)
        columns = {key: [row[key] for row in rows] for key in rows[0]}
        members = [(f"train/{k // MEMBERS}", k % MEMBERS) for k in range(TASKS * MEMBERS)]
        write_rollouts(folder, Rollouts(step, name, settings | progress, columns, advantages, members))
    return folder


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return run_directory(tmp_path / "run")


def result(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "replay.json").read_text()))


@pytest.mark.parametrize("recipe", ["grpo", "gigpo", "ptgpo", "planpo", "first_step_grpo", "empg", "dapo", "rloo"])
def test_the_runs_own_method_comes_out_equal(recipe: str, tmp_path: Path, capsys) -> None:
    run = run_directory(tmp_path / "run", f"+recipe={recipe}_webshop")
    assert main([str(run)]) == 0
    assert "old and new are equal in every turn" in capsys.readouterr().out


def test_another_method(run: Path, capsys) -> None:
    assert main([str(run), "advantage=ptgpo", "advantage.tau_expand=4", "+advantage.max_depth=2", "examples=3"]) == 0
    out = run / "replay" / "ptgpo,tau_expand=4,max_depth=2".replace(",", "_")
    found = result(out)
    assert found["old"]["method"] == "gigpo" and found["new"]["method"] == "ptgpo"
    assert found["new"]["settings"]["tau_expand"] == 4 and found["new"]["settings"]["max_depth"] == 2
    table = StepTable.from_rows(rows_of(2))
    new = compute(table, "ptgpo", gamma=0.95, tau_expand=4, max_depth=2, invalid_action_penalty=0.1)
    numbers = found["steps"][1]
    assert numbers["step"] == 2 and numbers["size_new"] == pytest.approx(np.abs(new).mean())
    assert "tree_depth_histogram" in numbers["signal"] and len(found["most_moved"]) == 3
    assert found["most_moved"][0]["task"].startswith("train/")
    lines = list(csv.DictReader((out / "steps.csv").open()))
    assert [line["step"] for line in lines] == ["1", "2", "3", "4"]
    assert float(lines[1]["size_new"]) == pytest.approx(np.abs(new).mean())
    assert (out / "replay.png").read_bytes().startswith(b"\x89PNG")
    said = capsys.readouterr().out
    assert f"{TASKS * MEMBERS * STEPS} trajectories, {TASKS * MEMBERS * STEPS * TURNS} turns" in said
    assert said.count(" -> ") >= 3 and "all" in said


def test_another_setting_of_the_same_method_keeps_the_others(tmp_path: Path) -> None:
    run = run_directory(tmp_path / "run", "+recipe=gigpo_webshop", "advantage.omega=0.5")
    assert main([str(run), "advantage.gamma=0.5", f"out={tmp_path / 'out'}"]) == 0
    settings = result(tmp_path / "out")["new"]["settings"]
    assert settings["gamma"] == 0.5 and settings["omega"] == 0.5


def test_terms_presets_and_a_function_of_ones_own(run: Path, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "mine.py").write_text("def flat(table, s):\n    return table.reward * 0 + s.gamma\n")
    monkeypatch.syspath_prepend(tmp_path)
    out = tmp_path / "out"
    assert main([str(run), "advantage=terms", "advantage.terms={episode:1,prefix_tree:0.5}", f"out={out}"]) == 0
    assert result(out)["new"]["settings"]["terms"] == {"episode": 1, "prefix_tree": 0.5}
    assert main([str(run), "advantage.preset=verl_agent", f"out={out}"]) == 0
    assert main([str(run), "advantage.name=mine:flat", "advantage.gamma=0.25", f"out={out}"]) == 0
    found = result(out)
    assert found["totals"]["size_new"] == 0.25 and found["totals"]["rank_correlation"] is None


def test_chosen_steps(run: Path, tmp_path: Path) -> None:
    for text, wanted in (("2", [2]), ("2-3", [2, 3]), ("1,3-9", [1, 3, 4])):
        assert main([str(run), f"steps={text}", f"out={tmp_path / 'out'}"]) == 0
        assert [line["step"] for line in result(tmp_path / "out")["steps"]] == wanted


def test_no_signal_is_said(run: Path, tmp_path: Path, capsys) -> None:
    assert main([str(run), "advantage=ptgpo", "+advantage.episode_weight=0", "+advantage.max_depth=0"]) == 0
    assert "warning" in capsys.readouterr().out


def test_values_of_a_critic(tmp_path: Path, capsys) -> None:
    with_values = run_directory(tmp_path / "ppo", "+recipe=ppo_webshop", value=1.0)
    assert main([str(with_values), "advantage.lam=0.9"]) == 0
    without = run_directory(tmp_path / "grpo", "+recipe=grpo_webshop")
    assert main([str(without), "advantage=ppo"]) == 2
    said = capsys.readouterr().err
    assert "value" in said and "advantage=ppo" in said and "grpo" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ["no run directory", "--help"]),
        (["{run}", "{run}"], ["more than one"]),
        (["{run}/nowhere"], ["there is no such folder"]),
        (["{run}/rollouts"], ["config.yaml", "runs/"]),
        (["{run}", "advantage=ptgp"], ["advantage=ptgp", "ptgpo"]),
        (["{run}", "advantage=ptgpo", "advantage.tau_expnd=4"], ["tau_expnd", "tau_expand"]),
        (["{run}", "advantage=ptgpo", "advantage.tau_expand=x"], ["tau_expand", "'x'", "integer"]),
        (["{run}", "advantage.gamma=2"], ["gamma", "2", "at most 1"]),
        (["{run}", "advantage.gamma={{"], ["advantage.gamma"]),
        (["{run}", "advantage.name=nowhere:fn"], ["nowhere:fn", "importable"]),
        (["{run}", "advantage=pta_grpo"], ["pta_grpo", "plan"]),
        (["{run}", "steps=x"], ["steps=x", "1-10"]),
        (["{run}", "steps=9-300000000000"], ["steps=9-300000000000", "1 to 4"]),
        (["{run}", "out="], ["out=", "name a folder"]),
        (["{run}", "out={run}/config.yaml"], ["config.yaml is a file"]),
        (["{run}", "steps=99"], ["steps=99", "1 to 4"]),
        (["{run}", "step=2"], ["step=2", "steps"]),
        (["{run}", "examples=-1"], ["examples=-1"]),
        (["{run}", "--gpu"], ["--gpu"]),
    ],
)
def test_bad_words_are_refused_in_one_sentence(words: list[str], said: list[str], run: Path, capsys) -> None:
    assert main([word.replace("{run}", str(run)).replace("{{", "{") for word in words]) == 2
    error = capsys.readouterr().err.strip()
    assert error.startswith("agentrl: ") and "\n" not in error and "Traceback" not in error
    for part in said:
        assert part in error


def test_missing_and_broken_rollouts(run: Path, tmp_path: Path, capsys) -> None:
    file = next((run / "rollouts").glob("*2.json.gz"))
    file.write_bytes(file.read_bytes()[:100])
    assert main([str(run)]) == 2
    assert "step_00002.json.gz cannot be read" in capsys.readouterr().err
    for path in (run / "rollouts").glob("*"):
        path.unlink()
    assert main([str(run)]) == 2
    assert "logging.rollouts" in capsys.readouterr().err


def test_needs_neither_ray_nor_torch(run: Path) -> None:
    code = (
        "import sys; from agentrl.replay import main; status = main(sys.argv[1:]); "
        "heavy = {'ray', 'torch', 'verl', 'vllm', 'transformers'} & set(sys.modules); print('heavy', sorted(heavy)); "
        "sys.exit(status or bool(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(run), "advantage=ptgpo"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
