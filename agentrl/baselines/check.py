"""What can be checked before Ray, an engine or a paid request: the model or the endpoint, the environment, the sizes."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from agentrl.baselines.endpoint import Endpoint, is_local
from agentrl.baselines.request import Request, identity
from agentrl.baselines.words import EndpointWords
from agentrl.config.errors import ConfigError
from agentrl.config.model import check_model
from agentrl.config.preflight import (
    check_environment_name,
    check_machine,
    check_playable,
    check_prompt,
    check_ray_address,
    check_writable,
)
from agentrl.config.schema import RunConfig

SHORTEST_NOTE_PROMPT = 64  # tokens: less holds no task
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")  # a name that is surely no key


@dataclass(frozen=True)
class Ready:
    """A request that has passed, with what was found on the way."""

    request: Request
    tasks: list[str]
    prompts: dict[str, str]
    identity: dict[str, object]
    out: Path
    key: str | None = field(default=None, repr=False)  # of the endpoint


def check(request: Request) -> Ready:
    """Raises ConfigError for the first thing that cannot work. Sends nothing (see `try_endpoint`)."""
    config, own = request.config, request.own
    key = None
    if own.backend == "openai":
        key = _endpoint(own.endpoint)
    else:
        check_model(config)
        _engine(request)
        check_machine(config, training=False)
    if own.agent != "reflexion" and own.reflexion.model_fields_set:
        name = sorted(own.reflexion.model_fields_set)[0]
        raise ConfigError(
            f"reflexion.{name}={getattr(own.reflexion, name)}: agent={own.agent} has one trial; choose agent=reflexion, or "
            "leave it out."
        )
    if own.agent == "policy" and own.history is not None:
        raise ConfigError(
            f"history={own.history}: it is of the baselines; with agent=policy it is "
            f"episode.history_length={config.episode.history_length}."
        )
    if own.backend != "openai" and own.endpoint.model_fields_set:
        name = sorted(own.endpoint.model_fields_set)[0]
        said = f"endpoint.{name}" if name == "key_env" else f"endpoint.{name}={getattr(own.endpoint, name)}"
        raise ConfigError(f"{said}: only backend=openai asks an endpoint; add that word.")
    check_environment_name(config)
    if own.out is not None:
        check_writable("out", Path(own.out))
    check_ray_address(config)
    return _tasks(request, key)


def _tasks(request: Request, key: str | None) -> Ready:
    """Loads the environment's data, so it comes last."""
    from agentrl.environments.registry import load_environment

    config = request.config
    environment, split = config.environment, config.evaluation.split
    plugin = load_environment(environment.name)
    if request.own.agent == "policy":
        check_prompt(config, plugin.prompts)
    check_playable(environment, plugin)
    try:
        found = plugin.tasks(split, **environment.options)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"evaluation.split={split}, environment.options={environment.options}: {error}") from None
    if not found.ids:
        raise ConfigError(f"evaluation.split={split}: {environment.name} has no tasks in it; choose another split.")
    if request.data_fingerprint is not None:
        now = plugin.tasks(environment.train_split, **environment.options).fingerprint
        if now != request.data_fingerprint:
            raise ConfigError(
                f"{request.run_dir}: that run trained on data with the fingerprint {request.data_fingerprint}, and "
                f"environment.name={environment.name} now has {now}; bring the same data back, or choose other data by "
                "environment.options."
            )
    number = len(found.ids) if request.whole_split else config.evaluation.tasks
    if number > len(found.ids):
        raise ConfigError(
            f"evaluation.tasks={number}: the split {split} of {environment.name} has {len(found.ids)} tasks; lower it, or "
            "leave it out for all."
        )
    who = identity(request, found.fingerprint)
    out = Path(request.own.out).expanduser() if request.own.out else _folder(request, who)
    check_writable("out", out)
    return Ready(request, list(found.ids[:number]), dict(plugin.prompts), who, out, key)


def _folder(request: Request, who: dict[str, object]) -> Path:
    """Named after what is asked, so that the same command goes on where it was and another one does not mix with it."""
    import hashlib
    import json

    digest = hashlib.blake2b(json.dumps(who, sort_keys=True, default=str).encode(), digest_size=4).hexdigest()
    config, own = request.config, request.own
    name = f"{config.environment.name.replace(':', '.')}-{config.evaluation.split}-{own.agent}-{digest}"
    if request.run_dir is not None:
        return request.run_dir / "evaluation" / (f"step_{request.step}-{name}" if request.step is not None else name)
    return Path("runs") / "evaluation" / name


def _engine(request: Request) -> None:
    """Sizes that the rollout workers and the conversations must agree on."""
    from agentrl.driver.specs import rollout_spec

    config, own = request.config, request.own
    need = config.episode.max_prompt_tokens + config.episode.max_response_tokens
    if config.context_length < need:
        raise ConfigError(
            f"rollout.max_model_len={config.rollout.max_model_len}: shorter than episode.max_prompt_tokens + "
            f"episode.max_response_tokens ({need}); raise it or leave it out."
        )
    if own.agent == "reflexion" and own.reflexion.max_tokens > config.context_length - SHORTEST_NOTE_PROMPT:
        raise ConfigError(
            f"reflexion.max_tokens={own.reflexion.max_tokens}: the context is {config.context_length} tokens, which leaves "
            "no room for what the note is about; lower it, or raise episode.max_prompt_tokens."
        )
    try:
        rollout_spec(config)
    except ValueError as error:
        raise ConfigError(f"rollout: {error}.") from None


def _endpoint(words: EndpointWords) -> str | None:
    """The key, or None where none is needed."""
    if words.url is None:
        raise ConfigError(
            "endpoint.url: backend=openai needs the address of the endpoint, for example "
            "endpoint.url=http://127.0.0.1:8000/v1."
        )
    if not words.model:
        raise ConfigError(
            "endpoint.model: backend=openai needs the model's name at the endpoint; add endpoint.model=NAME."
        )
    try:
        parts = urlsplit(words.url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
        good = good and bool(httpx.URL(words.url).host)  # it knows which names nobody can look up
    except (ValueError, httpx.InvalidURL):
        good = False
    if not good:
        raise ConfigError(f"endpoint.url={words.url}: not an address; write http://HOST:PORT/v1 or https://HOST/v1.")
    if parts.username or parts.password or parts.query:
        # it would be stored with the results
        raise ConfigError(
            "endpoint.url: it holds a user, a password or a query; give the bare address, and the key by endpoint.key_env."
        )
    return _key(words)


def _key(words: EndpointWords) -> str | None:
    name = words.key_env or "OPENAI_API_KEY"
    if not name.isidentifier():
        # somebody may have given the key itself, so it is not repeated
        raise ConfigError(
            "endpoint.key_env: what is given is not the name of an environment variable; put the key into one and give "
            "its name, for example endpoint.key_env=MY_KEY."
        )
    if name == "none":
        return None
    key = os.environ.get(name, "").strip()
    if not key:
        if words.key_env is None and is_local(str(words.url)):
            return None
        if not _VARIABLE.fullmatch(name):
            # many keys are identifiers, too
            raise ConfigError(
                "endpoint.key_env: there is no environment variable of that name; put the endpoint's key into one, and "
                "give its name, for example endpoint.key_env=MY_KEY."
            )
        said = f"endpoint.key_env={words.key_env}" if words.key_env else f"endpoint.url={words.url}"
        raise ConfigError(
            f"{said}: the environment variable {name} is not set; put the endpoint's key into it, or name another one by "
            "endpoint.key_env."
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError(
            f"endpoint.key_env={name}: what the environment variable holds is no key (a blank or a character outside "
            "ASCII); set it anew."
        )
    return key


def try_endpoint(ready: Ready) -> None:
    """One short request, so that a wrong key, name or field is seen before Ray starts. Raises ConfigError."""

    async def ask(config: RunConfig) -> None:
        endpoint = Endpoint(ready.request.own.endpoint, ready.key)
        try:
            await endpoint.try_out(config.evaluation.temperature, config.rollout.top_p)
        finally:
            await endpoint.close()

    asyncio.run(ask(ready.request.config))
