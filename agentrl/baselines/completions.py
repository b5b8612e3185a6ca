"""Reading what an endpoint sends back: a chat completion or its own words, whatever else may come, and never its key."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

LONGEST_ASKED_WAIT_S = 300.0
LONGEST_WORDS = 200  # characters of a message that is passed on
MOST_TOKENS = 1 << 30  # of one prompt or answer; a count above it is none
KEY_BEGINS = 8  # characters of the key that are enough to know a part of it by


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


def json_of(response: httpx.Response) -> Any:
    """ValueError when it is no JSON, or brackets within brackets without an end."""
    try:
        return response.json()
    except RecursionError:
        raise ValueError("its answer is no JSON that can be read: it is nested too deep") from None


def answer_of(content: Any) -> Answer:
    """From the JSON of a chat completion. ValueError when it is none."""
    try:
        choice = content["choices"][0]
        text = choice["message"].get("content") or ""
        if isinstance(text, list):
            text = "".join(str(part.get("text", "")) for part in text)
        usage = content.get("usage") or {}
        counted = Usage(_tokens(usage.get("prompt_tokens")), _tokens(usage.get("completion_tokens")))
        return Answer(str(text), str(choice.get("finish_reason") or "stop"), counted)
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ValueError(f"its answer is no chat completion: {_shown(content)}") from None


def _tokens(count: Any) -> int | None:
    return count if type(count) is int and 0 <= count <= MOST_TOKENS else None


def _shown(content: Any) -> str:
    try:
        return json.dumps(content)
    except RecursionError:
        return "it is nested too deep"


def words_of(response: httpx.Response) -> str:
    """The endpoint's own words, as they are (see `short`)."""
    try:
        error = json_of(response)
        error = error.get("error", error) if isinstance(error, Mapping) else error
        return str(error.get("message", error) if isinstance(error, Mapping) else error)
    except (ValueError, RecursionError):
        return response.text


def short(text: str, key: str | None) -> str:
    """On one line, without the key, which some endpoints repeat, and only then cut: a cut key would not be known."""
    if key:
        for form in (key, json.dumps(key)[1:-1], repr(key)[1:-1], quote(key, safe="")):
            text = text.replace(form, "...")
        # the endpoint may have cut it, too
        text = re.sub(re.escape(key[:KEY_BEGINS]) + r"[\w.~+/=-]*", "...", text)
    return " ".join(text.split())[:LONGEST_WORDS]


def asked_wait(headers: Mapping[str, str]) -> float:
    """Seconds that `Retry-After` asks for, at most LONGEST_ASKED_WAIT_S; 0 without it, or where it is a date."""
    try:
        return min(LONGEST_ASKED_WAIT_S, max(0.0, float(headers.get("retry-after", "0"))))
    except ValueError:
        return 0.0
