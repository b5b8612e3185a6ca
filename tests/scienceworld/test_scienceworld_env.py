"""ScienceWorld: the contract, worlds that repeat, scores, questions that the engine asks, and what it refuses."""

from __future__ import annotations

import random
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scienceworld_env import ScienceWorldEnv, plugin
from scienceworld_env.catalogue import PLANPO, SPLITS, TASKS, task_id
from scienceworld_env.env import _first_pages
from scienceworld_env.expert import Expert, RandomAgent, gold_path, play
from scienceworld_env.jvm import acquire, release, running

from agentrl.environments.contract import Observed
from agentrl.environments.contract_suite import check_environment

pytestmark = pytest.mark.usefixtures("needs_engine")

COMMANDS = ("look around", "wait1", "teleport to kitchen", "teleport to outside", "teleport to workshop", "open door",
            "open cupboard", "pick up thermometer", "pick up orange", "0", "activate sink", "look at table", "open fridge",
            "dance", "teleport to greenhouse", "inventory", "task")  # fmt: skip


def some_command(seen: Observed, rng: random.Random) -> str:
    return rng.choice(seen.info["admissible_actions"] or COMMANDS)


@pytest.fixture
def env() -> Iterator[ScienceWorldEnv]:
    made = plugin.make(tasks="all")
    yield made
    made.close()


def seen(env: ScienceWorldEnv, task: str, actions: list[str], seed: int = 3) -> list[Any]:
    """All that is shown on the way, and the whole world at the end."""
    pages: list[Any] = [env.reset(seed=seed, options={"task_id": task}), env.world.objects()]
    for action in actions:
        pages.append(env.step(action))
        if pages[-1][2]:
            break
    return [*pages, env.world.objects()]


def walk(env: ScienceWorldEnv, task: str, turns: int) -> list[str]:
    """Possible commands at random, with time passing between."""
    env.reset(seed=3, options={"task_id": task})
    rng, actions = random.Random(task), []
    for turn in range(turns):
        actions.append("wait1" if turn % 3 == 2 else RandomAgent(rng).act(env))
        if env.step(actions[-1])[2]:
            break
    return actions


def in_another_process(walks: list[tuple[str, list[str]]]) -> list[Any]:
    code = (
        "import sys, json\nfrom scienceworld_env import plugin\nenv = plugin.make(tasks='all')\n"
        "for task, actions in json.loads(sys.stdin.read()):\n"
        "    pages = [env.reset(seed=3, options={'task_id': task}), env.world.objects()]\n"
        "    pages += [env.step(action) for action in actions] + [env.world.objects()]\n"
        "    print(json.dumps(pages))\nenv.close()"
    )
    import json

    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(walks), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_it_keeps_the_contract() -> None:
    options = {"tasks": ["boil", "find-animal", "grow-plant"], "max_variations": 2}
    check_environment(
        "scienceworld_env.plugin:", options=options, policy=some_command, task_count=3, turns=6, resets=30
    )


@pytest.mark.slow
@pytest.mark.parametrize("simplifications", ["easy", "none"])
def test_it_keeps_the_contract_with_listed_actions(simplifications: str) -> None:
    check_environment(
        "scienceworld_env.plugin:",
        options={"tasks": "all", "valid_actions": True, "simplifications": simplifications},
        policy=some_command,
        task_count=6,
        resets=60,
        admissible_share=0.5,
    )


def test_worlds_repeat_beside_others_and_in_another_process(env: ScienceWorldEnv) -> None:
    """Tasks of which other papers' players saw other worlds at every load, and bees, who fly as chance has it."""
    import json

    walks = []
    other = plugin.make(tasks="all")
    for task in ("train/melt/000003", "train/use-thermometer/000001", "train/grow-fruit/000002"):
        actions = walk(env, task, 6)
        first = seen(env, task, actions)
        other.reset(seed=9, options={"task_id": "train/find-animal/000001"})
        again = [other.step("teleport to greenhouse") and env.reset(seed=3, options={"task_id": task})]
        again.append(env.world.objects())
        for action in actions:
            other.step("wait1")
            again.append(env.step(action))
        assert first == [*again, env.world.objects()]
        walks.append((task, actions, first))
    other.close()
    for (task, _, first), there in zip(walks, in_another_process([w[:2] for w in walks]), strict=True):
        assert json.loads(json.dumps(first)) == there, f"{task} differs in another process"


def test_a_world_keeps_its_simplifications_beside_a_world_with_others(env: ScienceWorldEnv) -> None:
    """ "easy" takes `connect` away from tasks without circuits, and the engine knows one list for a whole process."""
    env.reset(seed=0, options={"task_id": "train/boil/000000"})
    alone = env.valid_actions()
    assert not any(action.startswith("connect") for action in alone)
    other = plugin.make(tasks="all")
    try:
        other.reset(seed=0, options={"task_id": "train/test-conductivity/000000"})
        assert env.valid_actions() == alone
        assert any(action.startswith("connect") for action in other.valid_actions())
        env.reset(seed=0, options={"task_id": "train/boil/000000"})
        assert any(action.startswith("connect") for action in other.valid_actions())
    finally:
        other.close()


@pytest.mark.slow
def test_every_task_repeats(env: ScienceWorldEnv) -> None:
    import json

    walks = []
    for name in TASKS:
        task = task_id("validation", name, TASKS[name].variations("validation")[1])
        actions = walk(env, task, 15)
        walks.append((task, actions, seen(env, task, actions)))
    for (task, _, first), there in zip(walks, in_another_process([w[:2] for w in walks]), strict=True):
        assert json.loads(json.dumps(first)) == there, f"{task} differs in another process"


def test_the_seed_changes_chances_and_never_the_start(env: ScienceWorldEnv) -> None:
    """Chance is where bees fly, as soon as there is something for them in bloom: late on the way to a fruit."""
    task = "train/grow-fruit/000002"
    actions = gold_path(task)
    first, second = (seen(env, task, actions, seed) for seed in (1, 2))
    assert first[0] == second[0] and first[1] == second[1]
    assert first[-1] != second[-1]
    assert first[0][1]["repeatable"] and first[0][1]["start"] == second[0][1]["start"]


def test_a_group_that_does_not_start_equal_is_flagged(env: ScienceWorldEnv) -> None:
    task = "train/boil/000001"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert env.reset(seed=0, options={"task_id": task})[1]["repeatable"]
    (where,) = (key for key in _first_pages if key.startswith(task))
    _first_pages[where] = "something else"
    try:
        with pytest.warns(UserWarning, match="train/boil/000001 started otherwise than before"):
            info = env.reset(seed=0, options={"task_id": task})[1]
        assert not info["repeatable"] and not env.step("wait1")[4]["repeatable"]
    finally:
        del _first_pages[where]


def test_the_splits_are_the_engines() -> None:
    jvm = acquire(-1)
    try:
        front = jvm.new_interface()
        assert sorted(TASKS) == sorted(jvm.joined(front.getTaskNames()))
        for name, task in TASKS.items():
            getattr(front, "taskStr_$eq")(name)
            for split, listed in (("train", front.getVariationsTrain()), ("validation", front.getVariationsDev()),
                                  ("test", front.getVariationsTest())):  # fmt: skip
                numbers = task.variations(split)
                assert (listed.size(), listed.get(0)) == (len(numbers), numbers[0])
                assert listed.get(listed.size() - 1) == numbers[-1]
    finally:
        release(-1, jvm)
    assert [sum(len(t.variations(split)) for t in TASKS.values()) for split in SPLITS] == [3592, 1796, 1819]
    assert len(PLANPO) == 23 and {"test-conductivity", "chemistry-mix"} < set(PLANPO)


def test_rewards_add_up_to_the_score_and_the_expert_earns_it_all(env: ScienceWorldEnv) -> None:
    agent = Expert()
    for task in (
        "test/find-non-living-thing/000250",
        "train/lifespan-longest-lived/000003",
        "train/power-component/000001",
    ):
        env.reset(seed=0, options={"task_id": task})
        total, ended = 0.0, False
        while not ended:
            _, reward, ended, truncated, info = env.step(agent.act(env))
            total += reward
            assert info["score"] == pytest.approx(total) and not truncated
        assert info["success"] and info["score"] == 1 and info["raw_score"] == 100
    assert (
        gold_path("test/find-non-living-thing/000250") == agent.paths[("test/find-non-living-thing/000250", ("easy",))]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_the_expert_solves_every_task(name: str) -> None:
    env = plugin.make(tasks=name)
    try:
        assert play(env, Expert(), task_id("train", name, 1))[:2] == (1.0, True)
    finally:
        env.close()


def test_focusing_on_a_wrong_thing_ends_the_episode_with_nothing(env: ScienceWorldEnv) -> None:
    env.reset(seed=0, options={"task_id": "train/boil/000003"})
    earned = env.step("teleport to kitchen")[1] + env.step("wait")[1] + env.step("wait1")[1]
    _, reward, ended, _, info = env.step("focus on stove")
    assert ended and not info["success"] and info["score"] == 0 and info["raw_score"] == -100
    assert reward == pytest.approx(-earned)
    with pytest.raises(RuntimeError, match="call reset first"):
        env.step("wait1")


def test_a_question_of_the_engine_stands_until_something_is_done(env: ScienceWorldEnv) -> None:
    """The engine alone takes any text for an answer and lets time pass."""
    env.reset(seed=0, options={"task_id": "train/boil/000003"})
    text, _, _, _, asked = env.step("open door")
    assert text.startswith("Ambiguous request") and "1:" in text and asked["action_valid"]
    for nonsense in ("foo", "", "77", "x" * 3000, "\ud800"):
        info = env.step(nonsense)[4]
        assert not info["action_valid"] and info["state_key"] == asked["state_key"]
    assert env.valid_actions() == ["0", "1", "2"]
    text, _, _, _, info = env.step("1")
    assert "already open" in text and info["action_valid"]
    env.step("open door")
    text, _, _, _, info = env.step("teleport to kitchen")
    assert "teleport" in text and info["state_key"].startswith("kitchen ") and not env.world.question


def test_state_keys_look_at_what_is_there_and_not_at_its_order(env: ScienceWorldEnv) -> None:
    env.reset(seed=0, options={"task_id": "train/boil/000003"})
    start = env.step("teleport to kitchen")[4]["state_key"]
    assert env.step("look at stove")[4]["state_key"] == start
    opened = env.step("open cupboard")[4]
    assert opened["action_effective"] and opened["state_key"] != start
    env.step("pick up thermometer")
    shown = env._shown
    assert shown is not None
    turned = shown.look.replace("\n", "\n", 1).split("\n")
    turned[1:4] = reversed(turned[1:4])
    from dataclasses import replace

    assert env._key_of(replace(shown, look="\n".join(turned))) == env._key
    assert env._key_of(replace(shown, inventory="nothing")) != env._key


def test_valid_actions_come_on_demand_only(env: ScienceWorldEnv) -> None:
    _, info = env.reset(seed=0, options={"task_id": "train/boil/000003"})
    assert info["admissible_actions"] is None
    listed = env.valid_actions()
    assert len(listed) > 50 and listed == sorted(listed) and "teleport to kitchen" in listed
    full = plugin.make(valid_actions=True)
    assert full.reset(seed=0, options={"task_id": "train/boil/000003"})[1]["admissible_actions"] == listed
    full.close()


def test_simplifications(env: ScienceWorldEnv) -> None:
    hard = plugin.make(simplifications="none")
    text, _ = hard.reset(seed=0, options={"task_id": "train/boil/000003"})
    assert "door to the kitchen (that is closed)" in text
    assert not hard.step("teleport to kitchen")[4]["action_valid"]
    hard.close()
    doors = plugin.make(simplifications=["openDoors"])
    text, _ = doors.reset(seed=0, options={"task_id": "train/boil/000003"})
    assert "door to the kitchen (that is open)" in text
    assert not doors.step("teleport to kitchen")[4]["action_valid"]
    doors.close()


def test_the_readmes_sample_runs() -> None:
    text = (Path(__file__).resolve().parents[2] / "envs" / "scienceworld" / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict[str, Any] = {}
    exec(block, names)
    assert names["info"]["steps"] == 1
    names["env"].close()
    assert running() is None
    assert all(name in text for name in TASKS)
