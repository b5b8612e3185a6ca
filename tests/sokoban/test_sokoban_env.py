"""Sokoban: rules, rewards, rooms that can be solved in the number of moves that they name, splits, pictures."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from sokoban_env import SokobanEnv, plugin
from sokoban_env.agents import Expert, NoisyAgent, RandomAgent
from sokoban_env.generate import LEVELS, SPLITS, NoRoom, room_of
from sokoban_env.render import TILE, picture
from sokoban_env.room import MOVES, SIGNS, Room
from sokoban_env.search import distances, solution

from agentrl.environments.contract_suite import check_environment


def play(env: SokobanEnv, agent: Any, task: str, turns: int = 15) -> tuple[bool, int, float]:
    env.reset(options={"task_id": task})
    total = 0.0
    for turn in range(1, turns + 1):
        _, reward, done, _, _ = env.step(agent.act(env))
        total += reward
        if done:
            return True, turn, total
    return False, turns, total


def room(text: str) -> Room:
    """A room from its text."""
    signs = text.replace("\n", "").replace(" ", "")
    size = int(len(signs) ** 0.5)
    mask = lambda wanted: sum(1 << cell for cell, sign in enumerate(signs) if sign in wanted)  # noqa: E731
    player = next(cell for cell, sign in enumerate(signs) if sign in "PS")
    return Room(size, mask("_OX√PS"), mask("O√S"), (player, mask("X√")), 0)


@pytest.mark.parametrize(
    "options", [{}, {"size": 7, "boxes": 2, "image": True}, {"difficulty": "hard"}, {"observation": "coordinates"}]
)
def test_it_keeps_the_contract(options: dict[str, Any]) -> None:
    check_environment("sokoban_env.plugin:", options=options, turns=15, resets=200, page_tells_state=True)


def test_moves_and_pushes() -> None:
    made = room("###### #____# #PX_O# #____# #____# ######")
    state = made.after(made.start, "right")
    assert made.text(state).split("\n")[2] == "#_PXO#"
    state = made.after(state, "right")
    assert made.text(state).split("\n")[2] == "#__P√#" and made.solved(state)
    assert made.after(state, "right") == state  # the wall is behind the box
    assert made.text(made.after(made.after(made.start, "up"), "up")).split("\n")[1] == "#P___#"
    two = room("###### #PXX_# #O_O_# #____# #____# ######")
    assert two.after(two.start, "right") == two.start  # another box is behind it
    assert two.text(two.after(two.start, "down")).split("\n")[2] == "#S_O_#"


def test_rewards_are_those_of_gym_sokoban(monkeypatch: pytest.MonkeyPatch) -> None:
    made = room("###### #____# #PXOO# #_X__# #____# ######")
    monkeypatch.setattr("sokoban_env.env.room_of", lambda *a: made)
    env = plugin.make(boxes=2)
    _, info = env.reset(seed=0)
    assert not info["success"] and info["score"] == 0
    _, reward, done, _, info = env.step("right")
    assert reward == pytest.approx(0.9) and not done and info["score"] == 0.5
    _, reward, _, _, _ = env.step("right")  # from one target onto the other
    assert reward == pytest.approx(-0.1)
    _, reward, _, _, info = env.step("dance")
    assert reward == pytest.approx(-0.1) and not info["action_valid"] and not info["action_effective"]
    _, reward, _, _, info = env.step(" STILL ")
    assert info["action_valid"] and not info["action_effective"] and reward == pytest.approx(-0.1)
    for move in ("left", "left", "down", "right", "down", "right"):  # to below the other box
        _, reward, done, _, _ = env.step(move)
        assert not done
    _, reward, done, _, info = env.step("up")
    assert done and info["success"] and reward == pytest.approx(10.9)


def test_off_a_target_costs_one() -> None:
    env = plugin.make()
    env.reset(seed=1)
    env.room = room("###### #____# #P√_O# #_X__# #____# ######")
    env.state = env.room.start
    assert env.step("right")[1] == pytest.approx(-1.1)


@pytest.mark.parametrize(("size", "boxes"), [(5, 1), (6, 1), (6, 2), (7, 2), (8, 3)])
def test_every_room_can_be_solved_in_as_many_moves_as_it_says(size: int, boxes: int) -> None:
    for level, (shortest, longest) in LEVELS.items():
        if size == 5 and level == "hard":
            continue
        for number in range(12):
            made = room_of("train", number, size, boxes, level)
            moves = solution(made, made.start)
            assert moves is not None and len(moves) == made.optimal and shortest <= made.optimal <= longest
            state = made.start
            for move in moves:
                after = made.after(state, move)
                assert after != state
                state = after
            assert made.solved(state) and not made.start[1] & made.targets
            border = [c for c in range(size * size) if c % size in (0, size - 1) or c // size in (0, size - 1)]
            assert not any(made.floor >> cell & 1 for cell in border)


def test_distances_are_those_of_searching_forwards() -> None:
    for number in range(6):
        made = room_of("validation", number, 6, 2, "medium")
        found = distances(6, made.floor, made.targets, 40)
        rng = random.Random(number)
        for state in rng.sample(sorted(found), 40):
            moves = solution(made, state)
            assert moves is not None and len(moves) == found[state]
        assert found[made.start] == made.optimal


def test_no_room_stands_in_two_splits_and_seeds_do_not_overlap() -> None:
    rooms = {
        split: {
            (r.floor, r.targets, r.start)
            for level in LEVELS
            for r in (room_of(split, n, 6, 1, level) for n in range(300))
        }
        for split in SPLITS
    }
    assert not rooms["train"] & rooms["validation"] and not rooms["train"] & rooms["test"]
    assert not rooms["validation"] & rooms["test"] and len(rooms["train"]) > 800
    ranges = sorted((first, first + number) for first, number in SPLITS.values())
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(ranges))


def test_another_process_makes_the_same_rooms() -> None:
    code = (
        "from sokoban_env import plugin; e = plugin.make(size=7, boxes=2); "
        "print([e.reset(options={'task_id': f'test/{n:06d}'})[0] for n in range(20)], plugin.tasks('test').fingerprint)"
    )
    said = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(said) == 1


def test_levels_take_turns_and_one_can_be_chosen() -> None:
    env = plugin.make()
    kinds = [env.reset(options={"task_id": f"train/{n:06d}"})[1]["task_type"] for n in range(6)]
    assert kinds == [*LEVELS, *LEVELS]
    hard = plugin.make(difficulty="hard")
    assert {hard.reset(options={"task_id": f"train/{n:06d}"})[1]["task_type"] for n in range(6)} == {"hard"}


def test_players_rank_as_they_should_and_the_expert_needs_the_fewest_moves() -> None:
    env = plugin.make()
    tasks = plugin.tasks("test").ids[:60]
    for task in tasks:
        solved, turns, total = play(env, Expert(), task)
        assert solved and turns == env.room.optimal and total == pytest.approx(11 - 0.1 * turns)
    rate = lambda make: sum(play(env, make(random.Random(i)), t)[0] for i, t in enumerate(tasks)) / len(tasks)  # noqa: E731
    assert rate(RandomAgent) < 0.3 < rate(NoisyAgent) < 1


def test_pictures() -> None:
    env = gymnasium.make("Sokoban-v0", render_mode="rgb_array", image=True).unwrapped
    text, info = env.reset(options={"task_id": "train/000000"})
    assert info["image"].shape == (6 * TILE, 6 * TILE, 3) and info["image"].dtype == np.uint8
    assert (env.render() == info["image"]).all()
    tiles = {sign: picture(sign) for sign in SIGNS}
    assert len({tile.tobytes() for tile in tiles.values()}) == len(SIGNS)
    signs = text.split("\n")
    for row in range(6):
        for column in range(6):
            part = info["image"][row * TILE : (row + 1) * TILE, column * TILE : (column + 1) * TILE]
            assert (part == tiles[signs[row][column]]).all()
    assert plugin.make().reset(seed=0)[1].get("image") is None


def test_admissible_actions_are_those_that_change_something() -> None:
    env = plugin.make(boxes=2)
    rng = random.Random(0)
    env.reset(options={"task_id": "train/000003"})
    for _ in range(60):
        allowed = env._page(env.room, True, True)[1]["admissible_actions"]
        assert allowed == [m for m in MOVES if env.room.after(env.state, m) != env.state] + ["still"]
        if env.step(rng.choice(MOVES))[2]:
            break


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"sise": 6}, "did you mean 'size'"),
        ({"size": 4}, "size is 4: give a whole number from 5 to 10"),
        ({"size": 6.5}, "size is 6.5"),
        ({"boxes": 0}, "boxes is 0"),
        ({"size": 5, "boxes": 4}, "boxes is 4: a room of size 5 has space for 2 at most"),
        ({"difficulty": "impossible"}, "difficulty is 'impossible'"),
        ({"split": "dev"}, "split is 'dev'"),
        ({"tasks": 0}, "tasks is 0"),
        ({"image": "yes"}, "image is 'yes'"),
        ({"render_mode": "human"}, "render_mode is 'human'"),
    ],
)
def test_impossible_options_are_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        plugin.make(**options)


def test_unknown_tasks_and_wrong_calls() -> None:
    env = plugin.make()
    with pytest.raises(RuntimeError, match="call reset"):
        env.step("up")
    for task in ("train/999999", "dev/000000", "train/-1", "x"):
        with pytest.raises(ValueError, match="does not exist"):
            env.reset(options={"task_id": task})
    with pytest.raises(ValueError, match="split 'dev'"):
        plugin.tasks("dev")
    env.reset(seed=0)
    with pytest.raises(TypeError, match="of type int"):
        env.step(1)
    assert env.reset(seed=5)[0] == env.reset(seed=5)[0]


def test_rooms_that_hardly_exist_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sokoban_env.generate.TRIES", 3)
    with pytest.raises(NoRoom, match="take a larger size or fewer boxes"):
        room_of("train", 99_999, 5, 2, "hard")


def test_the_readmes_sample_runs() -> None:
    text = (Path(__file__).resolve().parents[2] / "envs" / "sokoban" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["info"]["steps"] == 1
    for split, (first, number) in SPLITS.items():
        assert f"{first + number - 1:,}" in text and split in text


def test_a_run_on_it_composes() -> None:
    from agentrl.config import compose_config

    config = compose_config(["+recipe=ptgpo_webshop", "environment=sokoban", "scale=gpu"])
    assert config.environment.name == "sokoban" and config.environment.reward.kind == "environment"
    assert (
        config.environment.options == {"size": 6, "boxes": 1, "difficulty": "all"}
        and config.environment.max_turns == 15
    )


def test_coordinates_tell_what_the_grid_shows() -> None:
    grid, words = plugin.make(size=7, boxes=2), plugin.make(size=7, boxes=2, observation="coordinates")
    rng = random.Random(0)
    for number in range(20):
        task = {"task_id": f"train/{number:06d}"}
        (text, _), (told, _) = grid.reset(options=task), words.reset(options=task)
        for _ in range(10):
            rows = text.splitlines()
            signs = {"you": "PS", "box": "X√", "target": "O√S", "wall": "#"}
            for kind, shown in signs.items():
                cells = [f"r{r} c{c}" for r in range(1, 6) for c in range(1, 6) if rows[r][c] in shown]
                assert (f"{kind} " + ", ".join(cells) in told.splitlines()) if cells else (f"{kind} " not in told)
            move = rng.choice(MOVES)
            text, _, ended, _, _ = grid.step(move)
            told, *_ = words.step(move)
            if ended:
                break


def test_a_small_room_has_no_long_solutions_and_none_are_asked_for() -> None:
    with pytest.raises(ValueError, match=r"difficulty is 'hard': a room of size 5 is too small .* easy, medium"):
        plugin.tasks("train", size=5, difficulty="hard")
    env = plugin.make(size=5, boxes=2)
    assert {env.reset(options={"task_id": f"test/{number:06d}"})[1]["task_type"] for number in range(9)} == {
        "easy",
        "medium",
    }
    assert plugin.tasks("train", size=5).fingerprint != plugin.tasks("train", size=5, difficulty="easy").fingerprint


@pytest.mark.parametrize(("size", "split"), [(6, "train"), (9, "test")])
def test_four_boxes_and_a_short_solution_are_found_for_every_task(size: int, split: str) -> None:
    for number in range(6):  # rare: up to thousands of tries each
        assert room_of(split, number, size, 4, "easy").optimal <= 5
