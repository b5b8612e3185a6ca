"""An OpenAI-compatible endpoint: one POST per answer, tried again after 429, 5xx, timeouts and lost connections."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from collections.abc import Hashable
from typing import Any
from urllib.parse import urlsplit

import httpx

from agentrl.baselines.chat import Message, answer_ids, messages_of
from agentrl.baselines.completions import Answer, Usage, answer_of, asked_wait, json_of, short, words_of
from agentrl.baselines.words import EndpointWords
from agentrl.config.errors import ConfigError, nearest
from agentrl.environments.faults import TrajectoryLost
from agentrl.episode.records import Generation

LONGEST_WAIT_S = 60.0  # between two tries, unless the endpoint asks for more
SEEDS = 1 << 31  # some servers take 32 bits only
# servers have no common code for it; their sentences have these words in common
_TOO_LONG = re.compile(r"context|too long|too many tokens|maximum .*(length|tokens)|token limit", re.IGNORECASE)
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class EndpointFailed(RuntimeError):
    """The endpoint cannot be worked with: refused for good, or still failing after all retries."""


class TooLong(Exception):
    """The conversation does not fit the model's context: with fewer of its turns it may."""


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
            response = await self._try(self.request(hello, words.max_tokens, temperature, top_p, 0))
        except httpx.TimeoutException:
            raise ConfigError(
                f"endpoint.url={words.url}: no answer within {words.timeout_s:g} s; raise endpoint.timeout_s, or see "
                "whether the endpoint is well."
            ) from None
        except httpx.HTTPError as error:
            raise ConfigError(
                f"endpoint.url={words.url}: nothing answers there ({self._why(error) or type(error).__name__}); start the "
                "endpoint, or correct the address."
            ) from None
        except (httpx.InvalidURL, ValueError) as error:  # a name that nobody can look up
            raise ConfigError(
                f"endpoint.url={words.url}: no request can be sent there ({self._why(error)}); correct the address."
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
        if 400 <= status < 500 and not _may_pass(status):
            raise ConfigError(
                f"endpoint.extra={words.extra}: the endpoint refuses the request ({self._said(response)}); extra adds "
                "fields to it, and null leaves one of ours out, as in 'endpoint.extra={seed:null}'."
            )
        if 300 <= status < 400:
            where = short(response.headers.get("location", "a place that it does not name"), self._key)
            raise ConfigError(
                f"endpoint.url={words.url}: it answers with {status}, which sends on to {where}; give the address that "
                "answers itself."
            )
        if status != 200:
            raise ConfigError(
                f"endpoint.url={words.url}: it answers with {self._said(response)}, not with 200; see whether the "
                "endpoint is well, or correct the address."
            )
        try:
            answer_of(json_of(response))
        except ValueError as error:
            raise ConfigError(
                f"endpoint.url={words.url}: it does not answer as an OpenAI-compatible endpoint does "
                f"({self._why(error)}); the address often ends in /v1."
            ) from None

    async def _try(self, body: dict[str, Any]) -> httpx.Response:
        """The trial's answer. What may pass (429, 5xx) is waited for as in the evaluation; the last one counts."""
        attempt = 0
        while True:
            response = await self._client.post(self._url("chat/completions"), **_json(body))
            if not _may_pass(response.status_code) or attempt == self.words.max_retries:
                return response
            await asyncio.sleep(max(self._wait(attempt), asked_wait(response.headers)))
            attempt += 1

    async def _not_found(self, response: httpx.Response) -> str:
        words, known = self.words, []
        try:
            listed = await self._client.get(self._url("models"))
            known = [short(str(model["id"]), self._key) for model in json_of(listed)["data"]]
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
            wait = self._wait(attempt)
            self.counters["requests"] += 1
            try:
                response = await self._client.post(self._url("chat/completions"), **_json(body))
                if response.status_code == 200:
                    return self._count(answer_of(json_of(response)))
                reason = self._said(response)
                if not _may_pass(response.status_code):
                    self._refuse(response.status_code, reason)
                wait = max(wait, asked_wait(response.headers))
            except httpx.TimeoutException:
                reason = f"no answer within {words.timeout_s:g} s"
            except httpx.HTTPError as error:
                reason = f"{type(error).__name__}: {self._why(error)}"
            except (httpx.InvalidURL, ValueError) as error:  # a gateway's page, or half an answer
                reason = self._why(error)
            if attempt < words.max_retries:
                self.counters["retries"] += 1
                await asyncio.sleep(wait)
        raise EndpointFailed(
            f"endpoint.url={words.url}: a request failed {words.max_retries + 1} times; the last time: {reason}"
        )

    def _wait(self, attempt: int) -> float:
        return min(LONGEST_WAIT_S, self.words.backoff_s * 2**attempt) * (0.75 + 0.5 * random.random())

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
        """Status and the endpoint's own words."""
        return f"{response.status_code} {short(words_of(response), self._key)}".strip()

    def _why(self, error: Exception) -> str:
        return short(str(error), self._key)


def _may_pass(status: int) -> bool:
    return status in (408, 429) or status >= 500


def _json(body: dict[str, Any]) -> dict[str, Any]:
    # httpx would not escape, and half a surrogate pair in an observation cannot be encoded
    return {"content": json.dumps(body).encode(), "headers": {"Content-Type": "application/json"}}
