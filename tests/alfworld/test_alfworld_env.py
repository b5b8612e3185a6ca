"""The environment: the contract, what a state is, success."""

from __future__ import annotations

import random

import gymnasium
import pytest
from alfworld_env.env import AlfworldEnv
from alfworld_env.expert import Expert

from agentrl.environments.contract_suite import check_environment

GENERATED = {"data_dir": "generated"}


@pytest.mark.parametrize("size", ["small", "full"])
def test_contract(size: str) -> None:
    check_environment("alfworld", options={"size": size, **GENERATED}, turns=15, resets=120)


@pytest.fixture
def env():
    made = AlfworldEnv(size="small", **GENERATED)
    yield made
    made.close()


def test_gymnasium_takes_it(env: AlfworldEnv) -> None:
    assert isinstance(env, gymnasium.Env)
    assert env.observation_space.contains("text") and env.action_space.contains(env.action_space.sample())
    first, _ = env.reset(seed=3)
    assert env.reset(seed=3)[0] == first and env.render() == first


def test_success_ends_the_episode_with_reward_one(env: AlfworldEnv) -> None:
    for number, kind in enumerate(("pick_and_place_simple", "look_at_obj_in_light", "pick_clean_then_place_in_recep",
                                   "pick_heat_then_place_in_recep", "pick_cool_then_place_in_recep",
                                   "pick_two_obj_and_place")):  # fmt: skip
        text, info = env.reset(options={"task_id": f"test/{kind}/{number:06d}"})
        assert info["task_type"] == kind and info["task"] in text
        expert, total, ended = Expert(env.game.goal), 0.0, False
        while not ended:
            text, reward, ended, truncated, info = env.step(expert.act(text, info["admissible_actions"]))
            total += reward
            assert not truncated and info["steps"] < 60
        assert (total, info["success"], info["score"]) == (1.0, True, 1.0)
        with pytest.raises(RuntimeError, match="call reset"):
            env.step("look")


def test_a_state_is_where_the_agent_is_and_what_it_sees_and_holds(env: AlfworldEnv) -> None:
    text, info = env.reset(options={"task_id": "train/pick_heat_then_place_in_recep/000003"})
    start = info["state_key"]
    assert env.step("no such thing")[4]["state_key"] == start
    assert env.step("inventory")[4]["state_key"] == start
    expert, keys, texts = Expert(env.game.goal), [start], {"Nothing happens."}
    while not info["success"]:
        action = expert.act(text, info["admissible_actions"])
        text, _, _, _, info = env.step(action)
        texts.add(text)
        assert info["action_effective"] == (info["state_key"] != keys[-1])
        keys.append(info["state_key"])
    assert any("hold" in key for key in keys) and any("ishot" in key for key in keys)


def test_states_reached_by_another_way_have_one_key(env: AlfworldEnv) -> None:
    _, info = env.reset(options={"task_id": "train/pick_and_place_simple/000000"})
    first, second = [c for c in info["admissible_actions"] if c.startswith("go to")][:2]
    direct = env.step(first)[4]["state_key"]
    env.step(second)
    assert env.step(first)[4]["state_key"] == direct


def test_the_feedback_can_be_the_anchor_as_in_the_public_gigpo_code() -> None:
    env = AlfworldEnv(size="small", anchor="feedback", **GENERATED)
    text, info = env.reset(options={"task_id": "train/pick_and_place_simple/000000"})
    assert info["state_key"] == text
    assert env.step("dance")[4]["state_key"] == "Nothing happens."
    env.close()


def test_commands_are_read_without_regard_to_case_and_spaces(env: AlfworldEnv) -> None:
    _, info = env.reset(options={"task_id": "train/pick_and_place_simple/000000"})
    wanted = next(c for c in info["admissible_actions"] if c.startswith("go to"))
    assert env.step(f"  {wanted.upper().replace(' ', '   ')}\n")[4]["action_valid"]


def test_random_play_never_breaks(env: AlfworldEnv) -> None:
    rng = random.Random(1)
    for seed in range(12):
        _, info = env.reset(seed=seed)
        for _ in range(40):
            _, _, ended, _, info = env.step(rng.choice(info["admissible_actions"]))
            if ended:
                break


def test_closed_means_closed(env: AlfworldEnv) -> None:
    env.close()
    with pytest.raises(RuntimeError, match="closed"):
        env.reset()
    with pytest.raises(TypeError, match="give a string"):
        env.step(1)
