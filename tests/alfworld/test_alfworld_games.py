"""Generated and public games: the lists, the splits, what is refused and what is left out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from alfworld_env import plugin
from alfworld_env.__main__ import main
from alfworld_env.engine import Engine
from alfworld_env.env import AlfworldEnv
from alfworld_env.expert import Expert
from alfworld_env.generate import TASK_TYPES, game_of
from alfworld_env.options import Options, game, games
from alfworld_env.prove import UnsolvableGame, walkthrough
from alfworld_env.rooms import KINDS, SEEN, UNSEEN, room
from alfworld_env.shipped import constants

GENERATED = {"data_dir": "generated"}


def test_hundreds_of_different_games_of_six_types_in_four_kinds_of_rooms() -> None:
    options = Options(data_dir="generated")
    found = {
        split: [game(options, name) for name in games(options, split).ids] for split in ("train", "validation", "test")
    }
    assert [len(found[split]) for split in found] == [1200, 120, 120]
    problems = [each.data["pddl_problem"].partition("(:domain")[2] for split in found.values() for each in split]
    assert len(set(problems)) == len(problems)
    for split in found.values():
        assert {each.goal.task_type for each in split} == set(TASK_TYPES)
        assert {each.room.kind for each in split} == set(KINDS)


def test_unseen_rooms_are_never_trained_on() -> None:
    options = Options(data_dir="generated")
    plans = {
        split: {game(options, name).room.floor_plan for name in games(options, split).ids}
        for split in ("train", "validation", "test")
    }
    assert plans["train"] & plans["test"] == set()
    assert plans["validation"] <= plans["train"]
    assert {plan % 100 for plan in plans["test"]} == set(UNSEEN)


def test_unseen_floor_plans_are_alfworlds() -> None:
    tables = constants()
    assert set(UNSEEN) <= set(tables.TEST_SCENE_NUMBERS) and not set(SEEN) & set(tables.TEST_SCENE_NUMBERS)


@pytest.mark.parametrize("size", ["small", "full"])
@pytest.mark.parametrize("base", KINDS.values())
def test_rooms_have_one_location_for_each_receptacle(base: int, size: str) -> None:
    for plan in (*UNSEEN, *SEEN):
        found = room(base + plan, size)
        places = [r.location for r in found.receptacles] + [found.start]
        assert len(set(places)) == len(places)
        assert size == "full" or len(found.receptacles) <= 8


@pytest.mark.parametrize("size", ["small", pytest.param("full", marks=pytest.mark.slow)])
def test_every_game_can_be_won(size: str) -> None:
    """By playing it; a generated game is also proved before its first episode in a process."""
    engine, options = Engine(), Options(size=size, data_dir="generated")
    numbers = range(0, 1200, 1 if size == "full" else 20)
    for split, some in (
        ("train", numbers),
        ("validation", range(0, 120, 6 if size == "small" else 1)),
        ("test", range(120)),
    ):
        ids = games(options, split).ids
        for number in some:
            assert walkthrough(engine, options, game(options, ids[number]))
    engine.close()


def test_a_game_that_cannot_be_won_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    import alfworld_env.prove as module

    monkeypatch.setattr(module, "MOST_STEPS", 2)
    monkeypatch.setattr(module, "_walkthroughs", type(module._walkthroughs)())
    env = AlfworldEnv(size="small", **GENERATED)
    with pytest.raises(UnsolvableGame, match="train/pick_two_obj_and_place/000005' was not won"):
        env.reset(options={"task_id": "train/pick_two_obj_and_place/000005"})
    env.close()


def test_the_expert_wins_two_object_games() -> None:
    """The expert that ALFWorld ships looks for "put" and loses these since the command is "move"."""
    engine = Engine()
    for number in range(5, 125, 6):
        found = game_of("validation", number % 120, "full")
        text, expert, steps = engine.load(found.data), Expert(found.goal), 0
        while not engine.won and steps < 50:
            text, known = engine.step(expert.act(text, sorted(engine.operators)))
            assert known
            steps += 1
        assert engine.won, found.task_id
    engine.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"sise": "small"}, "did you mean 'size'"),
        ({"size": "tiny"}, "size is 'tiny': choose one of full, small"),
        ({"anchor": "text"}, "choose one of state, feedback"),
        ({"tasks": 5000}, "from 6 to 1200"),
        ({"task_types": ["pick_up"]}, "task_types holds 'pick_up'"),
        ({"task_types": "look_at_obj_in_light"}, "give a list"),
        ({"split": "dev"}, "split is 'dev'"),
        ({"data_dir": 3}, "data_dir is 3: give a folder"),
    ],
)
def test_bad_options_are_refused_by_name(options: dict, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        plugin.make(**options)


@pytest.mark.parametrize(
    "task_id",
    [
        "",
        "train/1",
        "train/pick_up/000000",
        "train/pick_and_place_simple/000001",  # that number is of another type
        "test/pick_and_place_simple/000600",
    ],
)
def test_unknown_tasks_are_refused(task_id: str) -> None:
    env = AlfworldEnv(size="small", **GENERATED)
    with pytest.raises(ValueError, match=f"task_id {task_id!r} does not exist"):
        env.reset(options={"task_id": task_id})
    env.close()


def test_unknown_splits_are_refused_and_alfworlds_names_known() -> None:
    with pytest.raises(ValueError, match="split 'dev' does not exist"):
        plugin.tasks("dev", **GENERATED)
    assert plugin.tasks("valid_unseen", **GENERATED).ids == plugin.tasks("test", **GENERATED).ids


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


def first_game(data: Path, split: str = "train") -> Path:
    return sorted((data / "json_2.1.1" / split).glob("*/*"))[0]


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


def test_what_cannot_be_played_is_left_out_and_counted(data: Path, capsys: pytest.CaptureFixture) -> None:
    first, second, _ = sorted((data / "json_2.1.1" / "train").glob("*/*"))
    spoil(first / "game.tw-pddl", solvable=False)
    (second / "game.tw-pddl").write_text("{")
    assert len(plugin.tasks("train", data_dir=str(data)).ids) == 1
    assert main(["check", str(data)]) == 0
    shown = capsys.readouterr().out
    assert "left out: 1 not marked as solvable" in shown and "left out: 1 malformed" in shown
    assert "train (train): 1 games of ALFWorld 0.4" in shown


def test_data_of_the_older_version_puts_and_the_two_are_not_mixed(data: Path) -> None:
    trials = sorted((data / "json_2.1.1" / "train").glob("*/*"))
    older = json.loads((trials[0] / "game.tw-pddl").read_text())["grammar"].replace(
        '"move {o} to {r}"', '"put {o} in/on {r}"'
    )
    spoil(trials[0] / "game.tw-pddl", grammar=older)
    with pytest.raises(ValueError, match=r"mixes games of ALFWorld 0.3 .* and 0.4"):
        plugin.tasks("train", data_dir=str(data))
    for trial in trials[1:]:
        shutil.rmtree(trial)
    env = AlfworldEnv(data_dir=str(data) + "/")
    (task_id,) = plugin.tasks("train", data_dir=str(data) + "/").ids
    text, info = env.reset(options={"task_id": task_id})
    assert env.engine is not None and env.game is not None and env.engine.grammar.put_word == "put"
    expert = Expert(env.game.goal)
    while not info["success"] and info["steps"] < 60:
        action = expert.act(text, info["admissible_actions"])
        text, _, _, _, info = env.step(action)
    assert info["success"]
    assert env.game.goal.lamp or action.startswith("put ")
    env.close()


@pytest.mark.parametrize("text", ["{", "[]", '{"grammar": 1}'])
def test_a_malformed_game_is_named_when_it_is_asked_for(data: Path, text: str) -> None:
    trial = first_game(data)
    (trial / "game.tw-pddl").write_text(text)
    env = AlfworldEnv(data_dir=str(data))
    with pytest.raises(
        ValueError, match=f"the game 'train/{trial.parent.name}/{trial.name}' (cannot be read|is malformed)"
    ):
        env.reset(options={"task_id": f"train/{trial.parent.name}/{trial.name}"})
    env.close()
