"""Generated and public games: the lists, the splits, what is refused and what is left out."""

from __future__ import annotations

import pytest
from alfworld_env import plugin
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
@pytest.mark.timeout(3600)  # all 1,440 of them, when "full"
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
        ({"task_types": 5}, "task_types is 5: give a list of pick_and_place_simple"),
        ({"task_types": {"look_at_obj_in_light": 1}}, "task_types is {'look_at_obj_in_light': 1}: give a list"),
        ({"task_types": [["pick_up"]]}, r"task_types holds \['pick_up'\]"),
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


def test_fingerprints_of_generated_games_stay() -> None:
    """Trained policies and their checkpoints name these."""
    assert plugin.tasks("train", **GENERATED).fingerprint == "20096cc7345dacd9bc8ecc289a9624ff"
    assert plugin.tasks("test", size="small", **GENERATED).fingerprint == "fbf7d5f87a4251e1558299bb81d91649"
