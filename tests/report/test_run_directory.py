"""The folder of a run: what it holds, what it refuses, what a resume keeps."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from report_config import config_for

from agentrl.config import ConfigError
from agentrl.report import files
from agentrl.report.run_directory import RunDirectory, python_command
from agentrl.report.versions import git_revision, versions

WORDS = ["+recipe=ptgpo_webshop", "seed=7"]


def test_holds_what_made_the_run(tmp_path: Path) -> None:
    config = config_for(tmp_path / "run", "actor.learning_rate=2e-4")
    directory = RunDirectory.create(config, WORDS, "f00d")
    stored = yaml.safe_load((directory.path / "config.yaml").read_text())
    assert stored == config.model_dump(mode="json") and stored["actor"]["learning_rate"] == 2e-4
    assert json.loads((directory.path / "command.json").read_text())["overrides"] == WORDS
    made_by = json.loads((directory.path / "versions.json").read_text())
    assert made_by["data_fingerprint"] == "f00d"
    assert made_by["packages"]["verl"] == "0.9.1" and made_by["packages"]["webshop-env"]
    assert (directory.path / "episodes").is_dir()


def test_name_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("agentrl.report.run_directory.time.strftime", lambda form: "20260102-030405")
    names = [RunDirectory.create(config_for(), WORDS, "f00d").path for _ in range(3)]
    first = "20260102-030405-ptgpo_webshop-7"
    assert [path.name for path in names] == [first, f"{first}.2", f"{first}.3"]
    assert all(path.parent == Path("runs") for path in names)


@pytest.mark.parametrize("left", ["config.yaml", "metrics.jsonl", "checkpoints"])
def test_refuses_a_folder_with_another_run(left: str, tmp_path: Path) -> None:
    (tmp_path / left).write_text("")
    go_on = rf"go on with that run by resume={tmp_path}" if left == "checkpoints" else "delete it.*it has no checkpoint"
    with pytest.raises(ConfigError, match=rf"trainer\.run_dir={tmp_path}: .*another folder, or {go_on}"):
        RunDirectory.create(config_for(tmp_path), WORDS, "f00d")
    assert [path.name for path in tmp_path.iterdir()] == [left]


def test_takes_an_empty_folder_or_one_with_other_files(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert RunDirectory.create(config_for(tmp_path), WORDS, "f00d").path == tmp_path


@pytest.mark.parametrize("folder", ["/proc/agentrl-run", "file/below"])  # even root cannot write there
def test_says_what_cannot_be_written(folder: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / folder
    with pytest.raises(ConfigError, match=rf"trainer\.run_dir={path}: cannot be written \(.+\); name another"):
        RunDirectory.create(config_for(path), WORDS, "f00d")


def test_a_resume_keeps_the_versions_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    RunDirectory.create(config_for(tmp_path / "run"), WORDS, "f00d")
    began = json.loads((tmp_path / "run" / "versions.json").read_text())
    monkeypatch.setattr("agentrl.report.versions.__version__", "9.9")
    for times in (1, 2):
        config = config_for(tmp_path / "run", f"resume={tmp_path / 'run'}", "seed=8")
        RunDirectory.create(config, [*WORDS, "seed=8"], "f00d")
        now = json.loads((tmp_path / "run" / "versions.json").read_text())
        assert now["agentrl"] == began["agentrl"] != "9.9"
        assert [entry["agentrl"] for entry in now["resumed"]] == ["9.9"] * times
    assert json.loads((tmp_path / "run" / "command.json").read_text())["overrides"][-1] == "seed=8"


def test_versions_leave_out_what_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentrl.report.versions.RECORDED", ("numpy", "no-such-package"))
    packages = versions()["packages"]
    assert "numpy" in packages and "webshop-env" in packages and "no-such-package" not in packages


def test_git_revision_is_that_of_the_checkout(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
        return subprocess.run(
            ["git", *identity, *words], cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.strip()

    assert git_revision(tmp_path) is None
    git("init", "-q")
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("1")
    git("add", ".")
    git("commit", "-q", "-m", "one")
    head = git("rev-parse", "HEAD")
    assert git_revision(tmp_path / "package") == head
    (tmp_path / "package" / "a.py").write_text("2")
    assert git_revision(tmp_path / "package") == f"{head}+changes"
    (tmp_path / "installed").mkdir()
    assert git_revision(tmp_path / "installed") is None, "an untracked folder of a checkout is not that checkout's code"


def test_a_crash_while_writing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "summary.json"
    files.write_json(path, {"a": 1})

    def crash(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("agentrl.report.files.os.replace", crash)
    with pytest.raises(OSError, match="no space"):
        files.write_json(path, {"a": 2})
    assert json.loads(path.read_text()) == {"a": 1}


def test_how_this_python_is_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interpreter = tmp_path / "checkout" / ".venv" / "bin" / "python"
    interpreter.parent.mkdir(parents=True)
    interpreter.touch(mode=0o755)
    monkeypatch.setattr("agentrl.report.run_directory.sys.executable", str(interpreter))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path / "checkout")
    assert python_command() == ".venv/bin/python"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert python_command() == str(interpreter)
    monkeypatch.setenv("PATH", str(interpreter.parent))
    assert python_command() == "python"
