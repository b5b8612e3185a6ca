"""Direct, ReAct, Reflexion and the recipe's own prompt on real Sokoban rooms, with a model behind a local endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentrl.baselines.agents import Agent, Played
from agentrl.baselines.chat import MessageBytes
from agentrl.baselines.endpoint import Endpoint
from agentrl.baselines.results import line_of, summarise, table
from agentrl.baselines.words import EvaluateWords
from agentrl.config import RunConfig, compose_config
from agentrl.environments.registry import load_environment
from agentrl.episode.parse import INVALID

TASKS = [f"test/{number:06d}" for number in range(4)]
Model = Callable[[list[dict[str, str]], dict[str, Any]], str]


def config_of(*words: str) -> RunConfig:
    config = compose_config(["+recipe=grpo_webshop", "scale=cpu", "environment=sokoban", *words])
    config.environment.options = {"size": 6, "boxes": 1}  # drawn, whatever the tiny policy reads
    return config


def play(fake: Any, pool: Any, agent: str, *words: str, tasks: list[str] = TASKS, **own: Any) -> list[Played]:
    config = config_of(*words)
    said = EvaluateWords(
        agent=agent, backend="openai", endpoint={"url": fake.url, "model": "solver-1", "backoff_s": 0.01}, **own
    )  # fmt: skip

    async def run() -> list[Played]:
        endpoint = Endpoint(said.endpoint, None)
        environment = config.environment
        prompts = dict(load_environment(environment.name).prompts)
        made = Agent(config, said, pool(environment.name, environment.options), endpoint, MessageBytes(), prompts)
        try:
            return list(await asyncio.gather(*(made.play(task) for task in tasks)))
        finally:
            await endpoint.close()

    return asyncio.run(run())


def test_direct_solves_rooms(endpoint: Any, solver: Callable[[str], str], local_pool: Any) -> None:
    endpoint.model = lambda messages, body: solver(messages[-1]["content"])
    played = play(endpoint, local_pool, "direct")
    for one, task in zip(played, TASKS, strict=True):
        (trial,) = one.trials
        assert one.task == task and trial.success and trial.ended == "terminated"
        assert len(trial.turns) == trial.details["optimal_length"]
    first = endpoint.asked[0]["messages"][0]["content"]
    assert "Sokoban" in first and "push the box" in first and "alone" in first and "Possible actions" in first
    lines = [line_of(one) for one in played]
    assert summarise(lines)["all"]["success"] == 1.0
    # what the endpoint counted is what is reported
    words = sum(sum(len(m["content"].split()) for m in asked["messages"]) for asked in endpoint.asked)
    assert sum(line["prompt_tokens"] for line in lines) == words
    assert sum(line["response_tokens"] for line in lines) == len(endpoint.asked)


def test_react_keeps_its_thoughts(endpoint: Any, solver: Callable[[str], str], local_pool: Any) -> None:
    endpoint.model = lambda messages, body: (
        f"Thought: push\nAction: {solver(messages[-1]['content'])}\nObservation: you have won"
    )
    (one,) = play(endpoint, local_pool, "react", tasks=TASKS[:1])
    (trial,) = one.trials
    assert trial.success and [turn.thought for turn in trial.turns] == ["push"] * len(trial.turns)
    last = endpoint.asked[-1]["messages"]
    assert len(last) == 2 * len(trial.turns) - 1 and last[1]["content"].startswith("Thought: push\nAction: ")
    assert "you have won" not in str(last)


def test_reflexion_learns_from_its_note(endpoint: Any, solver: Callable[[str], str], local_pool: Any) -> None:
    def model(messages: list[dict[str, str]], body: dict[str, Any]) -> str:
        text = messages[0]["content"]
        if "Write it a note" in text:
            return "<think>hm</think>I stood still;\n push the box instead."
        if "push the box instead" in text and "You have failed" in text:
            return f"Thought: as I noted\nAction: {solver(messages[-1]['content'])}"
        return "Thought: wait\nAction: still"

    endpoint.model = model
    played = play(endpoint, local_pool, "reflexion", "environment.max_turns=8", reflexion={"trials": 3})
    for one in played:
        assert not one.trials[0].success
        assert one.notes[0] == "I stood still; push the box instead."
        first, second = one.trials[:2]
        # the same start, other draws
        assert first.turns[0].observation == second.turns[0].observation and first.env_seed == second.env_seed
        assert first.turns[0].seed != second.turns[0].seed
    solved = [one for one in played if one.trials[-1].success]
    assert solved and all(len(one.trials) == 2 for one in solved)
    summary = summarise([line_of(one) for one in played])["all"]
    assert summary["success_by_trial"][0] == 0.0 and summary["success_by_trial"][1] == len(solved) / len(TASKS)
    assert summary["success"] == summary["success_by_trial"][-1]


def test_reflexion_of_one_that_never_succeeds(endpoint: Any, local_pool: Any) -> None:
    endpoint.model = lambda messages, body: "note" if "Write it a note" in messages[0]["content"] else "Action: still"
    (one,) = play(
        endpoint, local_pool, "reflexion", "environment.max_turns=2", tasks=TASKS[:1],
        reflexion={"trials": 4, "memory": 1, "max_tokens": 33},
    )  # fmt: skip
    assert len(one.trials) == 4 and one.notes == ["note"] * 3
    notes = [asked for asked in endpoint.asked if "Write it a note" in asked["messages"][0]["content"]]
    assert [asked["max_tokens"] for asked in notes] == [33] * 3
    # of three notes the last trial is shown one
    assert endpoint.asked[-1]["messages"][0]["content"].count("- note") == 1
    assert len(table(summarise([line_of(one)]) | {})) == 2


def test_the_recipes_own_prompt(endpoint: Any, solver: Callable[[str], str], local_pool: Any) -> None:
    endpoint.model = lambda messages, body: f"<think>x</think><action>{solver(messages[-1]['content'])}</action>"
    (one,) = play(endpoint, local_pool, "policy", "prompt=compact", tasks=TASKS[:1])
    (trial,) = one.trials
    assert trial.success and all(turn.valid for turn in trial.turns)
    assert all(len(asked["messages"]) == 1 for asked in endpoint.asked)  # a window, not a conversation
    assert endpoint.asked[0]["messages"][0]["content"].startswith("task: push the box")


def test_unreadable_answers_take_no_step(endpoint: Any, local_pool: Any) -> None:
    endpoint.model = lambda messages, body: "I do not know."
    (one,) = play(endpoint, local_pool, "react", "environment.max_turns=3", tasks=TASKS[:1])
    (trial,) = one.trials
    assert [turn.action for turn in trial.turns] == [INVALID] * 3 and trial.ended == "max_turns"
    assert len({turn.observation for turn in trial.turns}) == 1
    assert line_of(one)["trials"][0]["invalid_turns"] == 3
    assert "no action in your last answer" in endpoint.asked[1]["messages"][-1]["content"]


def test_a_conversation_too_long_for_the_model(endpoint: Any, local_pool: Any) -> None:
    endpoint.model = lambda messages, body: "still"
    endpoint.most_tokens = 200  # words
    (one,) = play(endpoint, local_pool, "direct", tasks=TASKS[:1])
    assert one.trials[0].ended == "max_turns" and len(one.trials[0].turns) == 15
    assert any("are left out here" in asked["messages"][0]["content"] for asked in endpoint.asked)
    endpoint.most_tokens = 20  # not even one turn
    (one,) = play(endpoint, local_pool, "direct", tasks=TASKS[:1])
    assert one.trials[0].ended == "context" and not one.trials[0].success


def test_what_did_not_fit_is_no_turn(endpoint: Any, local_pool: Any) -> None:
    """As with a local model: a turn that nobody was asked for is not counted, and none of it is taken for invalid."""
    endpoint.model = lambda messages, body: "still"
    endpoint.most_tokens = 20  # words: not even one turn
    (one,) = play(endpoint, local_pool, "direct", tasks=TASKS[:1])
    line = line_of(one)
    assert line["ended"] == "context" and line["turns"] == 0 and line["trials"][0]["invalid_turns"] == 0
    assert line["prompt_tokens"] == line["response_tokens"] == 0
    endpoint.most_tokens = None

    def model(messages: list[dict[str, str]], body: dict[str, Any]) -> str:
        endpoint.most_tokens = 20 if len(endpoint.asked) >= 2 else None
        return "still"

    endpoint.asked.clear()
    endpoint.model = model
    # the third would be the last one: it is still the context that ended it
    (one,) = play(endpoint, local_pool, "direct", "environment.max_turns=3", tasks=TASKS[:1])
    line = line_of(one)
    assert (line["ended"], line["turns"], line["trials"][0]["invalid_turns"]) == ("context", 2, 0)
    assert line["response_tokens"] == 2 and summarise([line])["all"]["invalid_turn_share"] == 0.0


def test_an_endpoint_that_calls_its_own_end_context(endpoint: Any, local_pool: Any) -> None:
    answer = {"choices": [{"message": {"content": "still"}, "finish_reason": "context"}]}
    endpoint.faults = [(200, answer, {})] * 2
    (one,) = play(endpoint, local_pool, "direct", "environment.max_turns=2", tasks=TASKS[:1])
    assert one.trials[0].ended == "max_turns" and len(one.trials[0].turns) == 2


def test_tokens_are_counted_and_take_no_room(endpoint: Any, local_pool: Any) -> None:
    usage = {"prompt_tokens": 1 << 30, "completion_tokens": 1 << 30}
    endpoint.faults = [(200, {"choices": [{"message": {"content": "still"}}], "usage": usage}, {})]
    (one,) = play(endpoint, local_pool, "direct", "environment.max_turns=1", tasks=TASKS[:1])
    assert one.prompt_tokens == one.trials[0].response_tokens == 1 << 30


def test_repeated_it_is_the_same(endpoint: Any, local_pool: Any) -> None:
    """A model whose answers hang on the seed: every request gets the seed that it had before."""
    moves = ("up", "down", "left", "right")
    endpoint.model = lambda messages, body: moves[body["seed"] % 4]
    first, second = (play(endpoint, local_pool, "direct") for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert line_of(one) | {"seconds": 0} == line_of(other) | {"seconds": 0}
    other_seed = play(endpoint, local_pool, "direct", "seed=1")
    assert [line_of(one)["trials"] for one in other_seed] != [line_of(one)["trials"] for one in first]
    assert len({asked["seed"] for asked in endpoint.asked}) > 30
