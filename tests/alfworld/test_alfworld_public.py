"""Public games: what is listed and in which order, what is refused, what is left out and how a run hears of it."""

from __future__ import annotations

import json
import shutil
import warnings
from pathlib import Path

import pytest
from alfworld_env import plugin
from alfworld_env.__main__ import main
from alfworld_env.env import AlfworldEnv
from alfworld_env.expert import Expert
from alfworld_env.generate import TASK_TYPES
from alfworld_env.options import games

GENERATED = {"data_dir": "generated"}


def test_public_files_play_as_the_generated_games_that_they_were_written_from(exported: Path) -> None:
    ids = plugin.tasks("test", data_dir=str(exported)).ids
    assert len(ids) == 120
    env, twin = AlfworldEnv(data_dir=str(exported)), AlfworldEnv(size="small", **GENERATED)
    number = int(ids[0][-6:])
    text, info = env.reset(options={"task_id": ids[0]})
    other, twin_info = twin.reset(options={"task_id": games(twin.options, "test").ids[number]})
    assert text == other and info == twin_info
    env.close()
    twin.close()


def test_alfworld_data_is_taken_from_the_environment(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(exported))
    assert "trial_T" in plugin.tasks("train").ids[0]
    assert "trial_T" not in plugin.tasks("train", **GENERATED).ids[0]


@pytest.fixture
def data(exported: Path, tmp_path: Path) -> Path:
    """A small folder of public games that may be spoiled: three of each split."""
    for split in ("train", "valid_seen", "valid_unseen"):
        for trial in sorted((exported / "json_2.1.1" / split).glob("*/*"))[:3]:
            shutil.copytree(trial, tmp_path / "data" / "json_2.1.1" / split / trial.parent.name / trial.name)
    return tmp_path / "data"


def trials_of(data: Path, split: str = "train") -> list[Path]:
    return sorted((data / "json_2.1.1" / split).glob("*/*"))


def spoil(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_missing_data_and_half_a_data_set_are_named(data: Path) -> None:
    with pytest.raises(ValueError, match=r"no folder json_2.1.1/train: run alfworld-download"):
        plugin.tasks("train", data_dir=str(data / "nothing"))
    shutil.rmtree(data / "json_2.1.1" / "valid_unseen")
    with pytest.raises(ValueError, match=r"no folder json_2.1.1/valid_unseen"):
        plugin.tasks("test", data_dir=str(data))
    for game_file in (data / "json_2.1.1" / "valid_seen").glob("*/*/game.tw-pddl"):
        game_file.unlink()
    with pytest.raises(ValueError, match=r"holds no game that can be played \(3 without game.tw-pddl\)"):
        plugin.tasks("validation", data_dir=str(data))


def test_the_first_tasks_are_of_all_types_in_every_split(exported: Path) -> None:
    for split in ("train", "validation", "test"):
        ids = plugin.tasks(split, data_dir=str(exported)).ids
        kinds = [task_id.split("/")[1].partition("-")[0] for task_id in ids]
        assert all(kinds[first : first + 6] == list(TASK_TYPES) for first in range(0, len(ids), 6))
        of_one = [task_id for task_id, kind in zip(ids, kinds, strict=True) if kind == TASK_TYPES[1]]
        assert of_one == sorted(of_one)
        assert plugin.tasks(split, data_dir=str(exported), task_types=[TASK_TYPES[1]]).ids == of_one


def test_types_take_turns_until_one_has_no_more(exported: Path, tmp_path: Path) -> None:
    trials = exported / "json_2.1.1" / "train"
    for kind, count in ((TASK_TYPES[0], 1), (TASK_TYPES[2], 3), (TASK_TYPES[5], 2)):
        for trial in sorted(trials.glob(f"{kind}-*/*"))[:count]:
            shutil.copytree(trial, tmp_path / "train" / trial.parent.name / trial.name)
    ids = plugin.tasks("train", data_dir=str(tmp_path)).ids
    assert [TASK_TYPES.index(name.split("/")[1].partition("-")[0]) for name in ids] == [0, 2, 5, 2, 5, 2]


def test_what_cannot_be_played_is_left_out_and_counted(data: Path, capsys: pytest.CaptureFixture) -> None:
    first, second, _ = trials_of(data)
    spoil(first / "game.tw-pddl", solvable=False)
    (second / "game.tw-pddl").write_text("{")
    with pytest.warns(UserWarning) as warned:
        assert len(plugin.tasks("train", data_dir=str(data)).ids) == 1
    (line,) = [str(each.message) for each in warned]
    assert line.startswith("ALFWorld leaves out 2 games of train in ") and "\n" not in line
    assert f"train/{first.parent.name}/{first.name}: not marked as solvable" in line
    assert f"`python -m alfworld_env check {data}` shows all." in line
    assert main(["check", str(data)]) == 0
    shown = capsys.readouterr().out
    assert "left out: 1 not marked as solvable" in shown and "left out: 1 malformed" in shown
    assert f"train/{second.parent.name}/{second.name}" in shown
    assert "train (train): 1 games of ALFWorld 0.4" in shown


def test_a_warning_names_the_first_of_many_and_none_comes_for_what_alfworld_never_plays(data: Path) -> None:
    (target,) = {trial.parent.parent for trial in trials_of(data, "valid_seen")}
    shutil.copytree(
        trials_of(data, "valid_seen")[0].parent, target / "pick_and_place_with_movable_recep-Cup-Mug-Shelf-1"
    )
    spoil(trials_of(data, "valid_seen")[0] / "traj_data.json", task_type="pick_up")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(plugin.tasks("validation", data_dir=str(data)).ids) == 2
    target = data / "json_2.1.1" / "train"
    for number in range(5):
        copy = target / f"more-{number}" / "trial"
        shutil.copytree(trials_of(data)[0], copy)
        (copy / "game.tw-pddl").unlink()
    with pytest.warns(
        UserWarning, match=r"leaves out 5 games of train .*more-2/trial: without game.tw-pddl, \.\.\.\);"
    ):
        plugin.tasks("train", data_dir=str(data))


def drop_object_types(problem: str) -> str:
    return "\n".join(line for line in problem.splitlines() if not line.startswith("(objectType"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda problem: problem[: len(problem) // 2], "its pddl_problem has no :goal"),
        (lambda problem: problem.rstrip()[:-1], "the brackets of its pddl_problem do not match"),
        (lambda problem: problem + ")", "the brackets of its pddl_problem do not match"),
        (lambda problem: problem.replace("(define (problem", "(define (task", 1), r"no \(define \(problem"),
        (lambda problem: problem.replace("(:init", "(:facts", 1), "no :init"),
        (drop_object_types, "its room lacks what its goal names"),
        (lambda problem: problem.partition("(:goal")[0] + "(:goal (and)))", "its goal names no object"),
    ],
)
def test_a_problem_that_is_not_whole_is_left_out_of_the_list(data: Path, change, reason: str) -> None:
    trial = trials_of(data)[0]
    problem = json.loads((trial / "game.tw-pddl").read_text())["pddl_problem"]
    spoil(trial / "game.tw-pddl", pddl_problem=change(problem))
    name = f"train/{trial.parent.name}/{trial.name}"
    with pytest.warns(UserWarning, match=rf"leaves out 1 games .*{trial.name}: malformed \(.*{reason}"):
        assert name not in plugin.tasks("train", data_dir=str(data)).ids
    env = AlfworldEnv(data_dir=str(data))
    with pytest.raises(ValueError, match=f"the game {name!r} is malformed: .*{reason}"):
        env.reset(options={"task_id": name})
    env.close()


@pytest.mark.parametrize(
    "change",
    [
        lambda problem: problem.replace("(:init", "; a bracket in a comment (((\n(:init", 1),
        lambda problem: problem.replace("(:init", "( :INIT", 1).replace("(:goal", "\n  ( :goal"),
    ],
)
def test_comments_blanks_and_capitals_are_no_faults(data: Path, change) -> None:
    trial = trials_of(data)[0]
    problem = json.loads((trial / "game.tw-pddl").read_text())["pddl_problem"]
    spoil(trial / "game.tw-pddl", pddl_problem=change(problem))
    name = f"train/{trial.parent.name}/{trial.name}"
    assert name in plugin.tasks("train", data_dir=str(data)).ids
    env = AlfworldEnv(data_dir=str(data))
    assert env.reset(options={"task_id": name})[1]["admissible_actions"]
    env.close()


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"walkthrough": "go to desk 1"}, "its walkthrough is not a list"),
        ({"grammar": '"move {o} to {r}"'}, "its grammar names no task"),
        ({"pddl_domain": "(define (domain alfred)"}, "the brackets of its pddl_domain"),
        ({"pddl_problem": None}, "it has no text pddl_problem"),
    ],
)
def test_other_parts_that_are_not_whole_are_named(data: Path, values: dict, reason: str) -> None:
    spoil(trials_of(data)[0] / "game.tw-pddl", **values)
    with pytest.warns(UserWarning, match=reason):
        assert len(plugin.tasks("train", data_dir=str(data)).ids) == 2


def make_older(trial: Path) -> None:
    grammar = json.loads((trial / "game.tw-pddl").read_text())["grammar"]
    spoil(trial / "game.tw-pddl", grammar=grammar.replace('"move {o} to {r}"', '"put {o} in/on {r}"'))


def test_two_versions_in_one_split_are_refused(data: Path) -> None:
    make_older(trials_of(data)[0])
    with pytest.raises(ValueError, match=r"mixes games of ALFWorld 0.3 .* and 0.4"):
        plugin.tasks("train", data_dir=str(data))


def test_two_versions_in_two_splits_are_refused_whichever_is_asked_for(data: Path) -> None:
    for trial in trials_of(data, "valid_seen"):
        make_older(trial)
    for split, words in (
        ("train", "0.4 in train and of 0.3 in valid_seen"),
        ("validation", "0.3 in valid_seen and of 0.4 in train"),
        ("test", "0.4 in valid_unseen and of 0.3 in valid_seen"),
    ):
        with pytest.raises(ValueError, match=f"holds games of ALFWorld {words}: keep one version in a folder"):
            plugin.tasks(split, data_dir=str(data))
    assert main(["check", str(data)]) == 2


def test_data_of_the_older_version_puts_and_a_run_records_it(data: Path, exported: Path) -> None:
    for split in ("train", "valid_seen", "valid_unseen"):
        for trial in trials_of(data, split):
            make_older(trial)
    tasks = plugin.tasks("train", data_dir=str(data))
    # the fingerprint is what a run writes down of its data
    assert tasks.fingerprint.startswith("alfworld-0.3-")
    assert plugin.tasks("train", data_dir=str(exported)).fingerprint.startswith("alfworld-0.4-")
    env = AlfworldEnv(data_dir=str(data))
    text, info = env.reset(options={"task_id": tasks.ids[0]})
    assert env.engine is not None and env.game is not None and env.engine.grammar.put_word == "put"
    expert = Expert(env.game.goal)
    while not info["success"] and info["steps"] < 60:
        action = expert.act(text, info["admissible_actions"])
        text, _, _, _, info = env.step(action)
    assert info["success"]
    assert env.game.goal.lamp or action.startswith("put ")
    env.close()


@pytest.mark.parametrize("file", ["game.tw-pddl", "traj_data.json"])
def test_the_fingerprint_sees_a_change_that_keeps_names_and_sizes(data: Path, file: str) -> None:
    twin = data.parent / "twin"
    shutil.copytree(data, twin)
    before = plugin.tasks("train", data_dir=str(data))
    assert plugin.tasks("train", data_dir=str(twin) + "/").fingerprint == before.fingerprint
    path = trials_of(twin)[0] / file
    text = path.read_text()
    if file == "game.tw-pddl":
        goal = text.partition("Your task is to: ")[2]
        changed = text.replace(goal, "x" + goal[1:])
    else:
        changed = text.replace("trial_T", "trial_X")
    assert changed != text and len(changed) == len(text)
    path.write_text(changed)
    after = plugin.tasks("train", data_dir=str(twin))
    assert after.ids == before.ids and after.fingerprint != before.fingerprint


@pytest.mark.parametrize("text", ["{", "[]", '{"grammar": 1}'])
def test_a_malformed_game_is_named_when_it_is_asked_for(data: Path, text: str) -> None:
    trial = trials_of(data)[0]
    (trial / "game.tw-pddl").write_text(text)
    env = AlfworldEnv(data_dir=str(data))
    with pytest.raises(
        ValueError, match=f"the game 'train/{trial.parent.name}/{trial.name}' (cannot be read|is malformed)"
    ):
        env.reset(options={"task_id": f"train/{trial.parent.name}/{trial.name}"})
    env.close()
