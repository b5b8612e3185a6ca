"""An OpenAI-compatible endpoint that is busy, broken, strict or not there."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import httpx
import pytest

from agentrl.baselines.chat import MessageBytes
from agentrl.baselines.completions import Usage, answer_of, short, words_of
from agentrl.baselines.endpoint import Endpoint, EndpointFailed, TooLong
from agentrl.baselines.words import EndpointWords
from agentrl.config import ConfigError
from agentrl.environments.faults import TrajectoryLost

KEY = "sk-very-secret"
HELLO = MessageBytes().apply_chat_template([{"role": "user", "content": "hé \ud83d"}])


def words(endpoint: Any, **more: Any) -> EndpointWords:
    return EndpointWords(url=endpoint.url, model="solver-1", **({"backoff_s": 0.01, "max_retries": 3} | more))


def ask(said: EndpointWords, times: int = 1, seed: int = 7) -> tuple[list[Any], Endpoint]:
    async def run() -> tuple[list[Any], Endpoint]:
        endpoint = Endpoint(said, KEY)
        how: dict[str, Any] = {"max_tokens": 5, "temperature": 0.5, "top_p": 0.9}
        try:
            made = [await endpoint.generate(HELLO, trajectory_key=k, seed=seed, **how) for k in range(times)]
            return made, endpoint
        finally:
            await endpoint.close()

    return asyncio.run(run())


def test_what_is_sent_and_what_is_counted(endpoint: Any) -> None:
    endpoint.model = lambda messages, body: "go √p"
    (made,), client = ask(words(endpoint), seed=(5 << 31) + 3)
    assert MessageBytes().decode(made.token_ids) == "go √p" and made.stop_reason == "stop"
    (body,) = endpoint.asked
    assert body["messages"] == [{"role": "user", "content": "hé \ud83d"}] and body["model"] == "solver-1"
    assert (body["max_tokens"], body["temperature"], body["top_p"], body["seed"]) == (5, 0.5, 0.9, 3)
    assert endpoint.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert client.take(0) == [Usage(2, 2)] and client.take(0) == []
    assert client.counters["prompt_tokens"] == 2 and client.counters["answers_without_usage"] == 0


def test_fields_of_ones_own(endpoint: Any) -> None:
    extra = {"seed": None, "max_tokens": None, "max_completion_tokens": 9}
    ask(words(endpoint, extra=extra))
    assert "seed" not in endpoint.asked[0] and "max_tokens" not in endpoint.asked[0]
    assert endpoint.asked[0]["max_completion_tokens"] == 9


def test_usage_that_is_not_told(endpoint: Any) -> None:
    endpoint.usage = False
    _, client = ask(words(endpoint))
    assert client.take(0) == [Usage(None, None)] and client.counters["answers_without_usage"] == 1


@pytest.mark.parametrize("count", [10**13, -1, 1.5, "7", True, [7]])
def test_usage_that_cannot_be(count: Any, endpoint: Any) -> None:
    answer = {"choices": [{"message": {"content": "up"}}], "usage": {"prompt_tokens": count, "completion_tokens": 2}}
    endpoint.faults = [(200, answer, {})]
    _, client = ask(words(endpoint))
    assert client.take(0) == [Usage(None, 2)] and client.counters["answers_without_usage"] == 1


def test_what_passes_is_tried_again(endpoint: Any) -> None:
    endpoint.faults = [(429, {"error": "slow down"}, {}), (503, "<html>busy</html>", {}), (200, "half a", {})]
    (made,), client = ask(words(endpoint))
    assert made.token_ids and client.counters["retries"] == 3 and client.counters["requests"] == 4


def test_the_endpoint_says_how_long_to_wait(endpoint: Any) -> None:
    endpoint.faults = [(429, {}, {"Retry-After": "0.5"})]
    began = time.monotonic()
    ask(words(endpoint))
    assert time.monotonic() - began >= 0.5


def test_retries_end(endpoint: Any) -> None:
    endpoint.faults = [(500, {"error": {"message": f"broken, {KEY}"}}, {})] * 9
    with pytest.raises(EndpointFailed) as caught:
        ask(words(endpoint, max_retries=2))
    said = str(caught.value)
    assert "failed 3 times" in said and "500 broken" in said and endpoint.url in said and KEY not in said


LONG = "sk-" + "0123456789abcdef" * 10


@pytest.mark.parametrize("before", ["", "x" * 50, "x" * 120, "x" * 195, "x" * 300])
@pytest.mark.parametrize("key", [LONG, 'sk-"quoted\\'])
def test_no_part_of_the_key_is_told(before: str, key: str) -> None:
    def said(reply: httpx.Response) -> str:
        return short(words_of(reply), key)

    told = [
        said(httpx.Response(500, json={"error": {"message": f"{before} {key}"}})),
        said(httpx.Response(500, json={"error": {"key": f"{before} {key}"}})),
        said(httpx.Response(500, text=f"{before} {key}")),
        said(httpx.Response(500, text=f"{before} {key[:11]}")),  # cut over there
    ]
    with pytest.raises(ValueError) as caught:
        answer_of({"wrong": f"{before} {key}"})
    told.append(short(str(caught.value), key))
    for text in told:
        assert key[:8] not in text and key[-8:] not in text and len(text) <= 200


def test_an_answer_that_is_none_does_not_tell_the_key(endpoint: Any) -> None:
    endpoint.faults = [(200, {"x" * 90: KEY * 3}, {})] * 9
    with pytest.raises(EndpointFailed) as caught:
        ask(words(endpoint, max_retries=1))
    assert "no chat completion" in str(caught.value) and KEY[:8] not in str(caught.value)
    with pytest.raises(ConfigError) as refused:
        try_out(words(endpoint))
    assert "no chat completion" in str(refused.value) and KEY[:8] not in str(refused.value)


NESTED = "[" * 200_000


def test_brackets_without_an_end_are_no_json(endpoint: Any) -> None:
    endpoint.faults = [(200, NESTED, {}), (500, NESTED, {}), (200, "[" * 900 + "]" * 900, {})]
    (made,), client = ask(words(endpoint))
    assert made.token_ids and client.counters["retries"] == 3


@pytest.mark.parametrize("url", ["http://xn--/v1", "http://a..b/v1", f"http://{'a' * 70}.b/v1"])
def test_a_name_that_cannot_be_looked_up(url: str) -> None:
    said = EndpointWords(url=url, model="solver-1", max_retries=0, backoff_s=0.01)
    with pytest.raises(ConfigError, match=r"endpoint\.url=http"):
        try_out(said)
    with pytest.raises(EndpointFailed, match=r"endpoint\.url=http"):
        ask(said)


def test_a_slow_answer_is_tried_again(endpoint: Any) -> None:
    waits = [0.6, 0.0]

    def model(messages: Any, body: Any) -> str:
        time.sleep(waits.pop(0))
        return "up"

    endpoint.model = model
    (made,), client = ask(words(endpoint, timeout_s=0.3))
    assert made.token_ids and client.counters["retries"] == 1


def test_a_conversation_that_is_refused(endpoint: Any) -> None:
    endpoint.faults = [(400, {"error": {"message": "This model's maximum context length is 9"}}, {})]
    with pytest.raises(TooLong):
        ask(words(endpoint))
    endpoint.faults = [(400, {"error": {"message": "unknown field"}}, {})]
    with pytest.raises(EndpointFailed, match="unknown field"):  # the very first one: they would all be refused
        ask(words(endpoint))
    endpoint.model = lambda messages, body: endpoint.faults.append((400, {"error": "filtered"}, {})) or "up"
    with pytest.raises(TrajectoryLost, match="filtered"):
        ask(words(endpoint), times=2)


def try_out(said: EndpointWords, key: str | None = KEY) -> None:
    async def run() -> None:
        endpoint = Endpoint(said, key)
        try:
            await endpoint.try_out(1.0, 1.0)
        finally:
            await endpoint.close()

    asyncio.run(run())


def test_trying_out(endpoint: Any) -> None:
    try_out(words(endpoint))
    endpoint.faults = [(429, {}, {})]
    try_out(words(endpoint))  # it may pass
    assert not endpoint.faults and len(endpoint.asked) == 3
    endpoint.faults = [(503, {"error": "busy"}, {})] * 9
    with pytest.raises(ConfigError, match=r"endpoint\.url=.*503 busy"):
        try_out(words(endpoint))
    assert len(endpoint.asked) == 3 + 4  # as many retries as any request has


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ((401, {"error": {"message": f"wrong key {KEY}"}}, {}), ["endpoint.key_env=", "refuses the key", "wrong key"]),
        ((400, {"error": {"message": "no seed here"}}, {}), ["endpoint.extra", "no seed here", "null"]),
        ((200, "<html>hello</html>", {}), ["endpoint.url=", "/v1"]),
        ((200, {"text": "hello"}, {}), ["endpoint.url=", "no chat completion"]),
        ((404, {"error": {"message": "no such model"}}, {}), ["endpoint.model=solver-1"]),
        ((200, NESTED, {}), ["endpoint.url=", "nested too deep"]),
        ((201, {"choices": [{"message": {"content": "yes"}}]}, {}), ["endpoint.url=", "201", "not with 200"]),
        ((204, "", {}), ["endpoint.url=", "204"]),
        ((301, "", {"Location": "https://other/v1"}), ["endpoint.url=", "301", "https://other/v1"]),
        ((307, "", {"Location": "http://xn--/"}), ["endpoint.url="]),
        ((308, "", {}), ["endpoint.url=", "308"]),
    ],
)
def test_trying_out_names_the_word_to_change(fault: Any, said: list[str], endpoint: Any) -> None:
    endpoint.faults = [fault]
    with pytest.raises(ConfigError) as caught:
        try_out(words(endpoint))
    assert KEY not in str(caught.value)
    for part in said:
        assert part in str(caught.value)


def test_an_unknown_model_and_a_missing_key(endpoint: Any) -> None:
    with pytest.raises(ConfigError, match=r"endpoint.model=olver-1: .* Did you mean .*solver-1"):
        try_out(words(endpoint).model_copy(update={"model": "olver-1"}))
    endpoint.faults = [(401, {}, {})]
    with pytest.raises(ConfigError, match="asks for a key"):
        try_out(words(endpoint), key=None)


def test_nobody_there() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(ConfigError, match=r"endpoint.url=http.*nothing answers there"):
        try_out(EndpointWords(url=url, model="solver-1"))
