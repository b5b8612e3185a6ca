"""Every refused evaluation: exit status 2, one plain sentence with the word, its value and the remedy, nothing written."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentrl.config import compose_config
from agentrl.driver.checkpoint import save_checkpoint
from agentrl.environments.registry import load_environment
from agentrl.evaluate import main

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ["+recipe=ptgpo_webshop", "scale=cpu"]
OPENAI = [*RECIPE, "backend=openai", "endpoint.url=http://127.0.0.1:1/v1", "endpoint.model=m"]
FAR = [*RECIPE, "backend=openai", "endpoint.url=https://models.invalid/v1", "endpoint.model=m"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("AGENTRL_RECIPES", str(ROOT / "recipes"))


def refused(words: list[str], capsys: Any) -> str:
    assert main(words) == 2
    error = str(capsys.readouterr().err.strip())
    assert error.startswith("agentrl: ") and "\n" not in error and "Traceback" not in error
    return error


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], ["nothing to evaluate", "+recipe=ptgpo_webshop"]),
        (["one", "two"], ["one, two", "more than one run"]),
        (["--verbose"], ["--verbose", "--help"]),
        (["nowhere"], ["nowhere", "no such folder", "runs/"]),
        (["+recipe=ptgo_webshop"], ["recipe=ptgo_webshop", "ptgpo_webshop"]),
        ([*RECIPE, "agent=reakt"], ["agent='reakt'", "'react'"]),
        ([*RECIPE, "agnt=react"], ["agnt=react", "agent"]),
        ([*RECIPE, "endpont.url=x"], ["endpont.url=x", "endpoint.url"]),
        ([*RECIPE, "endpoint.ur=x"], ["endpoint.ur='x'", "url"]),
        ([*RECIPE, "trials=2"], ["trials=2", "reflexion.trials"]),
        ([*RECIPE, "evaluation.tsks=2"], ["evaluation.tsks=2", "tasks"]),
        ([*RECIPE, "evaluation.tasks=100000"], ["evaluation.tasks=100000", "lower it"]),
        ([*RECIPE, "evaluation.tasks=0"], ["evaluation.tasks=0", "greater than or equal to 1"]),
        ([*RECIPE, "evaluation.temperature=-1"], ["evaluation.temperature=-1"]),
        ([*RECIPE, "evaluation.split=tset"], ["evaluation.split=tset", "tset"]),
        ([*RECIPE, "environment.options.catalog=mini"], ["catalog", "catalogue"]),
        ([*RECIPE, "environment.name=webshp"], ["environment.name=webshp", "webshop"]),
        ([*RECIPE, "model.path=./nowhere"], ["model.path=./nowhere", "tiny"]),
        ([*RECIPE, "prompt=compakt"], ["prompt=compakt", "compact"]),
        ([*RECIPE, "rollout.workers=500"], ["rollout.workers=500", "500 cores", "lower it"]),
        ([*RECIPE, "rollout.max_model_len=20"], ["rollout.max_model_len=20", "raise it"]),
        ([*RECIPE, "step=3"], ["step=3", "runs/"]),
        ([*RECIPE, "resume=runs/x"], ["resume=runs/x", "agentrl.evaluate runs/x"]),
        ([*RECIPE, "history=3"], ["history=3", "episode.history_length"]),
        ([*RECIPE, "agent=react", "reflexion.trials=2"], ["reflexion.trials=2", "agent=reflexion"]),
        ([*RECIPE, "agent=reflexion", "reflexion.trials=0"], ["reflexion.trials=0"]),
        ([*RECIPE, "agent=reflexion", "reflexion.max_tokens=540"], ["reflexion.max_tokens=540", "544"]),
        ([*RECIPE, "endpoint.model=m"], ["endpoint.model=m", "backend=openai"]),
        ([*RECIPE, "out=/proc/agentrl"], ["out=/proc/agentrl", "permission"]),
        ([*RECIPE, "backend=openai"], ["endpoint.url", "http://127.0.0.1:8000/v1"]),
        ([*RECIPE, "backend=openai", "endpoint.url=http://h/v1"], ["endpoint.model", "NAME"]),
        ([*OPENAI, "endpoint.url=h:8000"], ["endpoint.url=h:8000", "http://HOST:PORT/v1"]),
        ([*OPENAI, "endpoint.url=http://me:secret@h/v1"], ["endpoint.url", "key_env"]),
        ([*OPENAI, "endpoint.concurrency=0"], ["endpoint.concurrency=0"]),
        ([*OPENAI, "endpoint.key_env=sk-secret"], ["endpoint.key_env", "name of an environment variable"]),
        ([*OPENAI, "endpoint.key_env=NOT_SET_KEY"], ["endpoint.key_env=NOT_SET_KEY", "not set"]),
        ([*OPENAI, "endpoint.key_env=gsk_supersecret123"], ["endpoint.key_env: ", "environment variable"]),
        ([*OPENAI, "endpoint.key_env=secret"], ["endpoint.key_env: ", "environment variable"]),
        ([*RECIPE, "endpoint.key_env=gsk_supersecret123"], ["endpoint.key_env: ", "backend=openai"]),
        ([*OPENAI, "endpoint.key=gsk_supersecret123"], ["endpoint.key: ", "endpoint.key_env"]),
        ([*OPENAI, "api_key=gsk_supersecret123"], ["api_key: ", "no such key"]),
        ([*OPENAI, "endpoint.url=http://xn--/v1"], ["endpoint.url=http://xn--/v1", "not an address"]),
        ([*OPENAI, "endpoint.url=http://a..b/v1", "endpoint.key_env=none"], ["endpoint.url=http://a..b/v1", "address"]),
        (FAR, ["OPENAI_API_KEY", "endpoint.key_env"]),
        (OPENAI, ["endpoint.url=http://127.0.0.1:1/v1", "nothing answers there", "start the endpoint"]),
    ],
    ids=lambda value: " ".join(value)[-60:] if isinstance(value, list) else None,
)
def test_refused(words: list[str], said: list[str], capsys: Any, tmp_path: Path) -> None:
    error = refused(words, capsys)
    for part in said:
        assert part in error
    assert "secret" not in error
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def run_folder(folder: Path, **state: Any) -> Path:
    """A run with two checkpoints, as training leaves them."""
    config = compose_config(RECIPE)
    tasks = load_environment("webshop").tasks("train", **config.environment.options)
    folder.mkdir()
    (folder / "config.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))

    def save(path: Path) -> None:
        (path / "huggingface").mkdir(parents=True)
        (path / "huggingface" / "config.json").write_text("{}")

    for step in (10, 20):
        save_checkpoint(folder, step, {"data_fingerprint": tasks.fingerprint, **state}, save, keep=5)
    return folder


def test_of_a_run(tmp_path: Path, capsys: Any) -> None:
    run = run_folder(tmp_path / "run")
    assert "steps 10, 20" in refused([str(run), "step=5"], capsys)
    assert "has its own recorded" in refused([str(run), "+recipe=ptgpo_webshop"], capsys)
    assert "has its own recorded" in refused([str(run), "environment=sokoban"], capsys)
    assert "leave one of the two out" in refused([str(run), "model.path=tiny"], capsys)
    assert "not a checkpoint" in refused([str(run), "step=10", *OPENAI[2:]], capsys)
    assert "no weights in it" in refused([str(run)], capsys)
    (run / "checkpoints" / "step_20" / "actor" / "huggingface" / "config.json").write_text("{ }")
    error = refused([str(run)], capsys)
    assert "step_20 is corrupt" in error and "step=10 is whole" in error
    (run / "config.yaml").write_text("a: [")
    assert "config.yaml: cannot be read" in refused([str(run)], capsys)
    (run / "config.yaml").unlink()
    assert "no config.yaml there" in refused([str(run)], capsys)


def test_a_run_on_other_data(tmp_path: Path, capsys: Any) -> None:
    run = run_folder(tmp_path / "run", data_fingerprint="0123")
    for step in (10, 20):
        weights = run / "checkpoints" / f"step_{step}" / "actor" / "huggingface"
        for file in (ROOT / "agentrl" / "assets" / "tiny_policy").iterdir():
            (weights / file.name).write_bytes(file.read_bytes())
        manifest = run / "checkpoints" / f"step_{step}" / "manifest.json"
        manifest.write_text(json.dumps({"step": step, "files": {}}))
    error = refused([str(run)], capsys)
    assert "fingerprint 0123" in error and "bring the same data back" in error


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "checkpoints"])
def test_a_runs_own_folder_is_not_written_into(name: str, tmp_path: Path, capsys: Any) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "checkpoints").mkdir() if name == "checkpoints" else (run / name).write_text("seed: 3\n")
    error = refused([*OPENAI, f"out={run}"], capsys)
    assert f"out={run}: there is a training run in it" in error
    assert [path.name for path in run.iterdir()] == [name]
    # nor is one that an evaluation has been written into already
    if name != "config.yaml":
        (run / "evaluation.json").write_text("{}")
        assert "there is a training run in it" in refused([*OPENAI, f"out={run}"], capsys)


def test_scienceworld_without_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    java = pytest.importorskip("scienceworld_env.java")
    monkeypatch.setattr(java, "_candidates", lambda: iter(()))
    words = ["+recipe=ptgpo_scienceworld", "scale=cpu", f"out={tmp_path / 'out'}"]
    assert "environment.name=scienceworld: ScienceWorld needs Java 17" in refused(words, capsys)
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_checkpoint(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(yaml.safe_dump(compose_config(RECIPE).model_dump(mode="json")))
    assert "no checkpoint in it yet" in refused([str(tmp_path / "run")], capsys)


def test_what_cfg_prints(capsys: Any) -> None:
    assert main([*RECIPE, "agent=react", "--cfg", "job"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["evaluate"]["agent"] == "react" and shown["evaluation"]["split"] == "validation"
    assert shown["rollout"]["deterministic"] is True
    assert main([*RECIPE, "rollout.deterministic=false", "--cfg", "job"]) == 0
    assert yaml.safe_load(capsys.readouterr().out)["rollout"]["deterministic"] is False
    assert main(["--help"]) == 0
    assert "reflexion.trials" in capsys.readouterr().out


def test_a_refusal_is_quick_and_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys; from agentrl.evaluate import main; status = main(sys.argv[1:]); "
        "print(sorted({'ray', 'torch', 'verl', 'vllm', 'transformers'} & set(sys.modules))); sys.exit(status)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code, *RECIPE, "evaluation.tasks=100000"], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, cwd=tmp_path,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 2 and done.stdout.strip() == "[]", done.stdout + done.stderr
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 3.0
