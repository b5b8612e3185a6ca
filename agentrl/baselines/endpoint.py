"""An OpenAI-compatible endpoint: one POST per answer, tried again after 429, 5xx, timeouts and lost connections."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from agentrl.baselines.chat import Message, answer_ids, messages_of
from agentrl.baselines.words import EndpointWords
from agentrl.config.errors import ConfigError, nearest
from agentrl.environments.faults import TrajectoryLost
from agentrl.episode.records import Generation

LONGEST_WAIT_S = 60.0  # between two tries, unless the endpoint asks for more
LONGEST_ASKED_WAIT_S = 300.0
SEEDS = 1 << 31  # some servers take 32 bits only
# servers have no common code for it; their sentences have these words in common
_TOO_LONG = re.compile(r"context|too long|too many tokens|maximum .*(length|tokens)|token limit", re.IGNORECASE)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class EndpointFailed(RuntimeError):
    """The endpoint cannot be worked with: refused for good, or still failing after all retries."""


class TooLong(Exception):
    """The conversation does not fit the model's context: with fewer of its turns it may."""


@dataclass(frozen=True)
class Usage:
    """Tokens of one answer as the endpoint counted them; None where it did not say."""

    prompt_tokens: int | None
    response_tokens: int | None


@dataclass(frozen=True)
class Answer:
    text: str
    stop_reason: str
    usage: Usage


def is_local(url: str) -> bool:
    return urlsplit(url).hostname in LOCAL_HOSTS


class Endpoint:
    """Stands where the rollout router stands: `generate` with the ids of `MessageBytes`, and `release`.

    counters: requests, retries, prompt_tokens, response_tokens, answers_without_usage. Close it at the end.

    Args:
        words: url and model are given.
        key: sent as a bearer token; never part of a message or a file.
    """

    def __init__(self, words: EndpointWords, key: str | None) -> None:
        assert words.url is not None and words.model is not None
        self.words = words
        self.counters: Counter[str] = Counter(
            requests=0, retries=0, prompt_tokens=0, response_tokens=0, answers_without_usage=0
        )
        self._key = key
        self._answered = False
        self._usages: dict[Hashable, list[Usage]] = {}
        self._room = asyncio.Semaphore(words.concurrency)
        self._client = httpx.AsyncClient(
            timeout=words.timeout_s,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            # a proxy that the environment names knows nothing of this machine
            trust_env=not is_local(words.url),
            limits=httpx.Limits(max_connections=words.concurrency + 1),
        )

    async def generate(
        self,
        prompt_ids: list[int],
        *,
        trajectory_key: Hashable,
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> Generation:
        """One turn's answer; its usage waits in `take`.

        Raises TooLong, TrajectoryLost for a conversation that the endpoint refuses for another reason (a filter, say),
        EndpointFailed for what ends the evaluation.
        """
        body = self.request(messages_of(prompt_ids), max_tokens, temperature, top_p, seed)
        async with self._room:
            answer = await self._ask(body)
        self._answered = True
        self.note(trajectory_key, answer.usage)
        return Generation(answer_ids(answer.text), [], answer.stop_reason)

    def request(
        self, messages: list[Message], max_tokens: int, temperature: float, top_p: float, seed: int
    ) -> dict[str, Any]:
        """The JSON that is sent; a field that `endpoint.extra` sets to null is left out."""
        body: dict[str, Any] = {
            "model": self.words.model,
            "messages": messages,
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
            "seed": seed % SEEDS,
        }
        return {name: value for name, value in (body | self.words.extra).items() if value is not None}

    def take(self, trajectory_key: Hashable) -> list[Usage]:
        """Usage of the answers so far under this key, oldest first; they are forgotten here."""
        return self._usages.pop(trajectory_key, [])

    def note(self, trajectory_key: Hashable, usage: Usage) -> None:
        self._usages.setdefault(trajectory_key, []).append(usage)

    def release(self, trajectory_key: Hashable) -> None:
        """Nothing is placed anywhere."""

    async def close(self) -> None:
        await self._client.aclose()

    async def try_out(self, temperature: float, top_p: float) -> None:
        """One short answer, asked as all later ones are. Raises ConfigError saying which word to change."""
        words = self.words
        hello: list[Message] = [{"role": "user", "content": "Answer with the word yes."}]
        try:
            response = await self._client.post(
                self._url("chat/completions"), **_json(self.request(hello, words.max_tokens, temperature, top_p, 0))
            )
        except httpx.TimeoutException:
            raise ConfigError(
                f"endpoint.url={words.url}: no answer within {words.timeout_s:g} s; raise endpoint.timeout_s, or see "
                "whether the endpoint is well."
            ) from None
        except httpx.HTTPError as error:
            raise ConfigError(
                f"endpoint.url={words.url}: nothing answers there ({error or type(error).__name__}); start the endpoint, "
                "or correct the address."
            ) from None
        status = response.status_code
        if status in (401, 403):
            said = self._said(response)
            if self._key:
                name = words.key_env or "OPENAI_API_KEY"
                raise ConfigError(f"endpoint.key_env={name}: the endpoint refuses the key in it ({said}).")
            raise ConfigError(
                f"endpoint.key_env={words.key_env}: the endpoint asks for a key ({said}); name the environment variable "
                "that holds it."
            )
        if status == 404:
            raise ConfigError(await self._not_found(response))
        if 400 <= status < 500 and status not in (408, 429):
            raise ConfigError(
                f"endpoint.extra={words.extra}: the endpoint refuses the request ({self._said(response)}); extra adds "
                "fields to it, and null leaves one of ours out, as in 'endpoint.extra={seed:null}'."
            )
        if status == 200:
            try:
                answer_of(response.json())
            except ValueError as error:
                raise ConfigError(
                    f"endpoint.url={words.url}: it does not answer as an OpenAI-compatible endpoint does ({error}); "
                    "the address often ends in /v1."
                ) from None
        # 429 and 5xx may pass: the evaluation waits for it, as long as its retries last

    async def _not_found(self, response: httpx.Response) -> str:
        words, known = self.words, []
        try:
            listed = await self._client.get(self._url("models"))
            known = [str(model["id"]) for model in listed.json()["data"]]
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            pass
        if known:
            return f"endpoint.model={words.model}: {words.url} has no such model.{nearest(str(words.model), known)}"
        return (
            f"endpoint.url={words.url}: no chat completions there, or no model {words.model} ({self._said(response)}); "
            "the address often ends in /v1."
        )

    async def _ask(self, body: dict[str, Any]) -> Answer:
        words, reason = self.words, ""
        for attempt in range(words.max_retries + 1):
            wait = min(LONGEST_WAIT_S, words.backoff_s * 2**attempt) * (0.75 + 0.5 * random.random())
            self.counters["requests"] += 1
            try:
                response = await self._client.post(self._url("chat/completions"), **_json(body))
                if response.status_code == 200:
                    return self._count(answer_of(response.json()))
                reason = self._said(response)
                if response.status_code not in (408, 429) and response.status_code < 500:
                    self._refuse(response.status_code, reason)
                wait = max(wait, asked_wait(response.headers))
            except httpx.TimeoutException:
                reason = f"no answer within {words.timeout_s:g} s"
            except httpx.HTTPError as error:
                reason = f"{type(error).__name__}: {error}"
            except ValueError as error:  # a gateway's page, or half an answer
                reason = str(error)
            if attempt < words.max_retries:
                self.counters["retries"] += 1
                await asyncio.sleep(wait)
        raise EndpointFailed(
            f"endpoint.url={words.url}: a request failed {words.max_retries + 1} times; the last time: {reason}"
        )

    def _refuse(self, status: int, reason: str) -> None:
        if status == 413 or (status in (400, 422) and _TOO_LONG.search(reason)):
            raise TooLong(reason)
        if status in (400, 422) and self._answered:
            raise TrajectoryLost(f"the endpoint refuses the conversation ({reason})")
        raise EndpointFailed(f"endpoint.url={self.words.url}: it refuses a request ({reason})")

    def _count(self, answer: Answer) -> Answer:
        usage = answer.usage
        self.counters["prompt_tokens"] += usage.prompt_tokens or 0
        self.counters["response_tokens"] += usage.response_tokens or 0
        self.counters["answers_without_usage"] += usage.prompt_tokens is None or usage.response_tokens is None
        return answer

    def _url(self, path: str) -> str:
        return f"{str(self.words.url).rstrip('/')}/{path}"

    def _said(self, response: httpx.Response) -> str:
        """Status and the endpoint's own words, on one line and without the key, which some endpoints repeat."""
        try:
            error = response.json()
            error = error.get("error", error) if isinstance(error, Mapping) else error
            text = str(error.get("message", error) if isinstance(error, Mapping) else error)
        except ValueError:
            text = response.text
        text = " ".join(text.split())[:200]
        text = text.replace(self._key, "...") if self._key else text
        return f"{response.status_code} {text}".strip()


def answer_of(content: Any) -> Answer:
    """From the JSON of a chat completion. ValueError when it is none."""
    try:
        choice = content["choices"][0]
        text = choice["message"].get("content") or ""
        if isinstance(text, list):
            text = "".join(str(part.get("text", "")) for part in text)
        usage = content.get("usage") or {}
        counts = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        counted = Usage(*(count if isinstance(count, int) else None for count in counts))
        return Answer(str(text), str(choice.get("finish_reason") or "stop"), counted)
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError(f"its answer is no chat completion: {json.dumps(content)[:120]}") from None


def asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds that `Retry-After` asks for, at most LONGEST_ASKED_WAIT_S; 0 without it, or where it is a date."""
    try:
        return min(LONGEST_ASKED_WAIT_S, max(0.0, float(headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0


def _json(body: dict[str, Any]) -> dict[str, Any]:
    # httpx would not escape, and half a surrogate pair in an observation cannot be encoded
    return {"content": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}
