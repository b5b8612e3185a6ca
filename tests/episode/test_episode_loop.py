"""The episode loop with a scripted engine and a real environment object: what is recorded, and when it ends."""

from __future__ import annotations

import asyncio
import json
import pickle
import random
from pathlib import Path
from typing import Any

import pytest
from words import tokenizer

from agentrl.environments.contract import check_reset, check_step
from agentrl.environments.waits import Waits
from agentrl.episode import (
    ActionParser,
    EpisodeSettings,
    Generation,
    Trajectory,
    WindowRenderer,
    derive,
    format_trajectory,
    run_episode,
    write_transcript,
)
from agentrl.rewards import RewardSpec

TOKENIZER = tokenizer()
END = TOKENIZER.eos_token_id


class Hall:
    """Three rooms in a row; "open" in the last one wins. A step costs 0.1 in the environment's own reward."""

    def __init__(self, truncate_at: int | None = None) -> None:
        self.truncate_at = truncate_at
        self.steps = 0

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self.room, self.steps = 0, 0
        return self.page(), self.info()

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        before = self.room
        self.room = min(2, self.room + 1) if action == "go" else self.room
        won = action == "open" and self.room == 2
        info = self.info(action in ("go", "open", "wait"), won or self.room != before)
        info |= {"success": won, "score": 1.0 if won else self.room / 4, "price": 12.5}
        return self.page(), float(won) - 0.1, won, self.steps == self.truncate_at, info

    def page(self) -> str:
        return f"room {self.room}"

    def info(self, valid: bool = True, effective: bool = True) -> dict[str, Any]:
        return {
            "task": "open the door",
            "state_key": f"key {self.room}",
            "admissible_actions": ["go", "open", "wait"],
            "success": False,
            "score": self.room / 4,
            "task_type": "door",
            "action_valid": valid,
            "action_effective": effective,
        }


class Session:
    """An environment session without servers."""

    def __init__(self, environment: Any, seed: int = 0) -> None:
        self.environment, self.seed, self.recoveries, self.actions = environment, seed, 0, list[str]()

    async def reset(self) -> tuple[str, dict[str, Any]]:
        seen = check_reset(self.environment.reset(seed=self.seed, options={"task_id": "train/1"}), "hall")
        return seen.observation, seen.info

    async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.actions.append(action)
        seen = check_step(self.environment.step(action), "hall")
        return seen.observation, seen.reward, seen.terminated, seen.truncated, seen.info


class Script:
    """An engine that says what the script says, and keeps what it was asked."""

    def __init__(self, *texts: str, end: bool = True) -> None:
        self.texts, self.end, self.asked = list(texts), end, list[dict[str, Any]]()

    async def __call__(self, prompt_ids: list[int], **named: Any) -> Generation:
        self.asked.append({"prompt_ids": prompt_ids, **named})
        turn = len(self.asked) - 1
        ids = TOKENIZER.encode(self.texts[turn], add_special_tokens=False)[: named["max_tokens"]]
        ids = [*ids, END] if self.end else ids
        await asyncio.sleep(0)
        return Generation(ids, [-0.5 - turn] * len(ids), "stop" if self.end else "length", 4, cached_tokens=turn)


def say(action: str) -> str:
    return f"<think>hm</think><action>{action}</action>"


def play(
    *texts: str,
    kind: str = "success",
    environment: Any = None,
    engine: Script | None = None,
    limit: int = 2000,
    **settings: Any,
) -> tuple[Trajectory, Script, Session]:
    engine = engine or Script(*texts)
    session = Session(environment or Hall(), seed=77)
    renderer = WindowRenderer(TOKENIZER, {"t": "{task} {action_history} {observation}"}, "t", max_prompt_tokens=limit)
    trajectory = asyncio.run(
        run_episode(
            "train/1",
            3,
            9,
            session=session,
            generate=engine,
            renderer=renderer,
            parser=ActionParser(),
            reward=RewardSpec(kind, 10.0),  # type: ignore[arg-type]
            settings=EpisodeSettings(**{"run_seed": 5, "max_turns": 6, "max_response_tokens": 60, **settings}),
            attempt=2,
        )
    )
    return trajectory, engine, session


def test_a_won_episode_is_recorded_whole() -> None:
    trajectory, engine, session = play(say("go"), say("GO"), say("open"), say("never asked"))
    assert session.actions == ["go", "go", "open"]
    assert len(engine.asked) == 3  # a finished episode is never prompted again
    assert trajectory.key == (9, "train/1", 3)
    assert (trajectory.run_seed, trajectory.attempt, trajectory.env_seed) == (5, 2, 77)
    assert (trajectory.success, trajectory.score, trajectory.ended) == (True, 1.0, "terminated")
    assert (trajectory.task, trajectory.task_type) == ("open the door", "door")
    assert trajectory.final_observation == "room 2"
    assert trajectory.details == {"price": 12.5}
    assert [turn.observation for turn in trajectory.turns] == ["room 0", "room 1", "room 2"]
    assert [turn.state_key for turn in trajectory.turns] == ["key 0", "key 1", "key 2"]
    assert [turn.action for turn in trajectory.turns] == ["go", "go", "open"]
    assert [turn.thought for turn in trajectory.turns] == ["hm"] * 3
    assert [turn.reward for turn in trajectory.turns] == [0.0, 0.0, 10.0]
    assert all(turn.valid and turn.effective for turn in trajectory.turns)


def test_tokens_log_probs_and_identity_are_those_of_the_engine() -> None:
    trajectory, engine, _ = play(say("go"), say("go"), say("open"))
    for index, (turn, asked) in enumerate(zip(trajectory.turns, engine.asked, strict=True)):
        assert turn.prompt_ids == asked["prompt_ids"]
        assert turn.response_ids[-1] == END
        assert TOKENIZER.decode(turn.response_ids[:-1]) == turn.text
        assert turn.log_probs == [-0.5 - index] * len(turn.response_ids)
        assert turn.seed == asked["seed"] == derive(5, 9, "train/1", 3, index)
        assert asked["trajectory_key"] == (9, "train/1", 3)
        assert (asked["max_tokens"], asked["temperature"], asked["top_p"]) == (60, 1.0, 1.0)
        assert (turn.policy_version, turn.stop_reason, turn.cached_tokens) == (4, "stop", index)
        assert turn.generate_seconds > 0 and turn.step_seconds > 0


def test_a_text_without_action_takes_no_step() -> None:
    trajectory, engine, session = play("what now", say("go"), "<think>x</think>", say("go"), say("open"))
    assert session.actions == ["go", "go", "open"]
    assert [turn.valid for turn in trajectory.turns] == [False, True, False, True, True]
    assert [turn.effective for turn in trajectory.turns] == [False, True, False, True, True]
    assert [turn.action for turn in trajectory.turns] == ["<invalid>", "go", "<invalid>", "go", "open"]
    assert [turn.observation for turn in trajectory.turns] == ["room 0", "room 0", "room 1", "room 1", "room 2"]
    assert [turn.state_key for turn in trajectory.turns] == ["key 0", "key 0", "key 1", "key 1", "key 2"]
    assert [turn.reward for turn in trajectory.turns] == [0, 0, 0, 0, 10]
    assert trajectory.turns[0].invalid_reason == "no <action>"
    assert trajectory.turns[0].step_seconds == 0
    assert "<invalid>" in TOKENIZER.decode(engine.asked[1]["prompt_ids"])


def test_an_action_that_the_environment_refuses_is_invalid() -> None:
    trajectory, _, session = play(say("fly"), say("wait"), say("go"), say("go"), say("open"))
    assert session.actions[0] == "fly"
    assert [turn.valid for turn in trajectory.turns] == [False, True, True, True, True]
    assert [turn.effective for turn in trajectory.turns] == [False, False, True, True, True]
    assert trajectory.turns[0].action == "fly"
    assert "the environment knows no such action" in trajectory.turns[0].invalid_reason


def test_turn_limit() -> None:
    trajectory, engine, _ = play(*[say("wait")] * 9, max_turns=4)
    assert (trajectory.ended, len(trajectory.turns), len(engine.asked)) == ("max_turns", 4, 4)
    assert not trajectory.success
    assert trajectory.total_reward == 0
    trajectory, _, _ = play(*["nothing"] * 9, max_turns=2)
    assert (trajectory.ended, len(trajectory.turns)) == ("max_turns", 2)
    trajectory, _, _ = play(say("go"), say("go"), say("open"), max_turns=3)  # won with the last turn
    assert (trajectory.ended, trajectory.success) == ("terminated", True)


def test_truncation_by_the_environment() -> None:
    trajectory, _, _ = play(*[say("wait")] * 9, environment=Hall(truncate_at=2))
    assert (trajectory.ended, len(trajectory.turns)) == ("truncated", 2)


def test_the_end_of_the_context_ends_that_trajectory() -> None:
    class Growing(Hall):
        def page(self) -> str:
            return "x" * (20 + 40 * self.steps)

    trajectory, engine, _ = play(*[say("wait")] * 9, environment=Growing(), limit=130)
    assert trajectory.ended == "context"
    assert len(trajectory.turns) == len(engine.asked) == 3
    assert all(len(turn.prompt_ids) <= 130 for turn in trajectory.turns)
    trajectory, engine, _ = play(environment=Growing(), limit=10)
    assert (trajectory.ended, trajectory.turns, engine.asked) == ("context", [], [])


def test_a_response_cut_by_length_is_parsed_as_it_is() -> None:
    cut = Script(say("go"), "<think>so</think><action>go</action> and then", say("open"), say("open"), end=False)
    trajectory, _, session = play(engine=cut, max_response_tokens=17, max_turns=3)
    # 17 characters or tags: "<think>hm</think><action>go</action>" has 8, the second is cut after " and the"
    assert [turn.stop_reason for turn in trajectory.turns] == ["length"] * 3
    assert session.actions == ["go", "go", "open"]
    trajectory, _, session = play(engine=Script(say("go"), end=False), max_response_tokens=6, max_turns=1)
    assert session.actions == []
    assert trajectory.turns[0].invalid_reason == "no </action>"
    assert len(trajectory.turns[0].response_ids) == len(trajectory.turns[0].log_probs) == 6


@pytest.mark.parametrize(
    ("kind", "won", "ran_out"),
    [
        ("success", [0, 0, 10], [0, 0, 0]),
        ("score", [0, 0, 10], [0, 0, 2.5]),
        ("environment", [-1, -1, 9], [-1, -1, 0]),
    ],
)
def test_rewards(kind: str, won: list[float], ran_out: list[float]) -> None:
    trajectory, _, _ = play(say("go"), say("go"), say("open"), kind=kind)
    assert [turn.reward for turn in trajectory.turns] == pytest.approx(won)
    trajectory, _, _ = play(say("go"), say("wait"), "no action", kind=kind, max_turns=3)
    assert [turn.reward for turn in trajectory.turns] == pytest.approx(ran_out)


def test_reward_kind_is_checked() -> None:
    with pytest.raises(ValueError, match=r"environment\.reward\.kind=sucess: must be one of success, score"):
        RewardSpec("sucess")  # type: ignore[arg-type]


def test_what_the_engine_raises_comes_through() -> None:
    class Dead(Script):
        async def __call__(self, prompt_ids: list[int], **named: Any) -> Generation:
            raise ConnectionError("the rollout worker is gone")

    with pytest.raises(ConnectionError, match="the rollout worker is gone"):
        play(engine=Dead())


def test_waits_are_written_on_the_board() -> None:
    waits, said = Waits(), []

    class Asking(Script):
        async def __call__(self, prompt_ids: list[int], **named: Any) -> Generation:
            said.append(waits.describe())
            return await super().__call__(prompt_ids, **named)

    renderer = WindowRenderer(TOKENIZER, {"t": "{observation}"}, "t")
    settings = EpisodeSettings(run_seed=5, max_turns=1)
    how: dict[str, Any] = {"renderer": renderer, "parser": ActionParser(), "reward": RewardSpec(), "waits": waits}
    asyncio.run(
        run_episode("train/1", 3, 9, session=Session(Hall()), generate=Asking(say("go")), settings=settings, **how)
    )
    assert said == ["step 9 task train/1 member 3 waits for generate since 0 s"]
    assert len(waits) == 0


def test_many_episodes_at_once_give_what_each_gives_alone() -> None:
    """Answers depend on (prompt, seed) only, so the order of arrival must not show."""

    def engine(shuffled: random.Random | None) -> Any:
        async def generate(prompt_ids: list[int], *, seed: int, **named: Any) -> Generation:
            if shuffled is not None:
                await asyncio.sleep(shuffled.random() / 100)
            choice = random.Random(f"{prompt_ids} {seed}").choice(["go", "open", "wait", "fly"])
            ids = TOKENIZER.encode(say(choice), add_special_tokens=False)
            return Generation(ids, [0.0] * len(ids), "stop")

        return generate

    async def episode(member: int, generate: Any) -> Trajectory:
        return await run_episode(
            "train/1",
            member,
            0,
            session=Session(Hall()),
            generate=generate,
            renderer=WindowRenderer(TOKENIZER, {"t": "{observation}"}, "t"),
            parser=ActionParser(),
            reward=RewardSpec(),
            settings=EpisodeSettings(run_seed=1, max_turns=8),
        )

    async def together() -> list[Trajectory]:
        return await asyncio.gather(*(episode(member, engine(random.Random(0))) for member in range(16)))

    alone = [asyncio.run(episode(member, engine(None))) for member in range(16)]
    actions = [[turn.action for turn in trajectory.turns] for trajectory in alone]
    assert [[turn.action for turn in trajectory.turns] for trajectory in asyncio.run(together())] == actions
    assert len({tuple(walk) for walk in actions}) > 4  # members differ


def test_records_go_to_plain_dicts_and_back() -> None:
    trajectory, _, _ = play(say("go"), "hm", say("go"), say("open"))
    plain = json.loads(json.dumps(trajectory.to_dict()))
    assert Trajectory.from_dict(plain) == trajectory
    assert pickle.loads(pickle.dumps(trajectory)) == trajectory
    with pytest.raises(ValueError, match="a Trajectory record has no field 'colour'"):
        Trajectory.from_dict({**plain, "colour": 1})


def test_transcript(tmp_path: Path) -> None:
    trajectory, _, _ = play(say("go"), "hm", say("fly"), say("go"), say("open"))
    text = format_trajectory(trajectory)
    for part in (
        "goal      open the door",
        "outcome   success, score 1.000, reward 10, 5 turns, ended: terminated",
        "--- turn 2 of 5",
        "    room 1",
        "    <think>hm</think><action>go</action>",
        "action:  <invalid>",
        "verdict: invalid (no <action>); reward 0; policy version 4",
        "verdict: invalid (the environment knows no such action here)",
        "price: 12.5",
    ):
        assert part in text, part
    path = write_transcript(trajectory, tmp_path / "episodes")
    assert path.name == "step00009-train_1-03.txt"
    assert path.read_text() == text
    trajectory.step, trajectory.task_id = -1, "../../etc/x y"
    assert write_transcript(trajectory, tmp_path / "episodes").parent == tmp_path / "episodes"
