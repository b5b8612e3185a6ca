"""The words that `agentrl.evaluate` has beside those of a run, in a typed, strict schema of their own."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from agentrl.config.advantage_words import parsed_word, put_key
from agentrl.config.compose import GROUPS, known_keys, validation_sentence
from agentrl.config.errors import ConfigError, nearest
from agentrl.config.schema import RunConfig, Section


class EndpointWords(Section):
    """An OpenAI-compatible endpoint (POST url/chat/completions)."""

    url: str | None = None  # the base, such as http://127.0.0.1:8000/v1
    model: str | None = None  # its name there
    # the environment variable that holds the key; `none`: no key is sent; not given: OPENAI_API_KEY, and an endpoint on
    # this machine may go without
    key_env: str | None = None
    concurrency: int = Field(default=8, ge=1)  # requests at a time
    timeout_s: float = Field(default=120.0, gt=0)  # of one try
    max_retries: int = Field(default=6, ge=0)  # of one request, after 429, 5xx, a timeout or a lost connection
    backoff_s: float = Field(default=1.0, gt=0)  # before the first retry; doubles with each, up to 60
    max_tokens: int = Field(default=512, ge=1)  # of one answer
    extra: dict[str, Any] = Field(default_factory=dict)  # more fields of the request; null leaves one of ours out


class ReflexionWords(Section):
    trials: int = Field(default=3, ge=1)  # episodes per task; a success ends them
    memory: int = Field(default=3, ge=1)  # latest notes that a trial is shown
    max_tokens: int = Field(default=256, ge=1)  # of one note


class EvaluateWords(Section):
    agent: Literal["policy", "direct", "react", "reflexion"] = "policy"
    backend: Literal["rollout", "openai"] = "rollout"
    out: str | None = None  # folder of the results; None: named after what is asked
    step: int | None = Field(default=None, ge=0)  # which checkpoint of RUN_DIR; None: the newest; 0: before training
    history: int | None = Field(default=None, ge=0)  # past turns a baseline is shown; None: all that fit
    endpoint: EndpointWords = Field(default_factory=EndpointWords)
    reflexion: ReflexionWords = Field(default_factory=ReflexionWords)


@dataclass
class Words:
    """The command line, read: a run directory or None, our own words, and those of a run's configuration."""

    run_dir: Path | None
    own: EvaluateWords
    run: list[str] = field(default_factory=list)
    whole_split: bool = True  # evaluation.tasks was not given


_TEXTS = ("out", "endpoint.url", "endpoint.model", "endpoint.key_env")  # taken as they stand, whatever is in them
_SECRET = re.compile(r"key|token$|secret|password", re.IGNORECASE)


def read_words(words: list[str]) -> Words:
    """Raises ConfigError for a word that nobody knows, and for a value of ours that is not allowed."""
    places = [word for word in words if "=" not in word and not word.startswith(("-", "~"))]
    if len(places) > 1:
        raise ConfigError(f"{', '.join(places)}: more than one run directory given; evaluate one at a time.")
    own: dict[str, Any] = {}
    read = Words(Path(places[0]).expanduser() if places else None, EvaluateWords())
    for word in words:
        if places and word == places[0]:
            continue
        key, _, value = word.lstrip("+").partition("=")
        head = key.split(".")[0]
        told = word
        if _SECRET.search(key) and key not in _TEXTS and key not in known_keys():
            told = key  # somebody may have given the endpoint's key here, so it is not repeated
            if head == "endpoint" and not key.startswith("endpoint.extra."):
                raise ConfigError(f"{told}: there is no such key; endpoint.key_env names the variable that holds it.")
        if word.startswith("-"):
            raise ConfigError(f"{word}: there is no such flag; known are --help and --cfg job.")
        if head in EvaluateWords.model_fields:
            keys, parsed = (key.split("."), value) if key in _TEXTS else parsed_word(word.lstrip("+"))
            put_key(own, keys, None if parsed == "null" else parsed)
        elif head == "resume":
            raise ConfigError(
                f"{word}: an evaluation goes on when the same command is given again; to evaluate that run, write "
                f"python -m agentrl.evaluate {value}."
            )
        elif key == "evaluation.tasks" and value in ("all", "null"):
            continue
        elif head.lstrip("~") in (*RunConfig.model_fields, *GROUPS, "recipe"):
            read.run.append(word)
            read.whole_split = read.whole_split and key != "evaluation.tasks"
        else:
            raise ConfigError(f"{told}: there is no such key.{_hint(key)}")
    try:
        read.own = EvaluateWords.model_validate(own)
    except ValidationError as error:
        raise ConfigError(validation_sentence(error, EvaluateWords)) from None
    return read


def _hint(key: str) -> str:
    keys = [*known_keys(EvaluateWords), *known_keys()]
    same_end = [known for known in keys if known.rpartition(".")[2] == key.rpartition(".")[2]]
    return f" Did you mean {', '.join(same_end[:3])}?" if same_end else nearest(key, keys)
