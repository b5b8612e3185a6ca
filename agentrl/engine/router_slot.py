"""One place for a rollout worker: starts it, notices that it died or hangs, and puts another in its place."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from agentrl.engine.rollout_spec import RolloutSpec, environment_variables
from agentrl.engine.rollout_worker import RolloutEngineDied, RolloutWorker
from agentrl.engine.weights import WeightDescriptor
from agentrl.episode.records import Generation

MAX_CONCURRENCY = 4096  # calls that one worker actor has in hand at once
PING_TIMEOUT_S = 10.0
SHUTDOWN_TIMEOUT_S = 15.0
START_ATTEMPTS = 3  # of a replacement; the first worker of a run gets one


class WorkerLost(RuntimeError):
    """The worker died, hangs or cannot be started; the message says which and why."""


class WorkerSlot:
    """Holds the worker `index`. Every method raises WorkerLost, after it has begun to replace the worker."""

    def __init__(
        self,
        spec: RolloutSpec,
        index: int,
        cpus: float,
        start_timeout_s: float,
        restore: Callable[[WorkerSlot], Awaitable[None]],
        counters: Counter[str],
    ) -> None:
        self.spec = spec
        self.index = index
        self.cpus = cpus
        self.start_timeout_s = start_timeout_s
        self.handle: Any = None
        self.in_flight = 0
        self.alive = False
        self._restore = restore
        self._counters = counters
        self._replacing: asyncio.Task[None] | None = None
        self._closed = False

    async def start(self) -> dict[str, Any]:
        """Make the actor and load the model."""
        import ray
        from ray.exceptions import RayError

        options: dict[str, Any] = {
            "num_cpus": self.cpus,
            "max_concurrency": MAX_CONCURRENCY,
            "max_restarts": 0,
            "runtime_env": {"env_vars": environment_variables(self.spec)},
        }
        if self.spec.device == "cuda":
            options["num_gpus"] = self.spec.tensor_parallel_size
        self.handle = ray.remote(RolloutWorker).options(**options).remote(self.spec, self.index)
        try:
            facts = await asyncio.wait_for(_answer(self.handle.start.remote()), self.start_timeout_s)
        except TimeoutError:
            self._kill()
            raise WorkerLost(
                f"rollout worker {self.index} did not start within {self.start_timeout_s:g} s: it waits for "
                f"{self.cpus:g} CPUs and {options.get('num_gpus', 0)} GPUs of Ray, or the model is slow to load"
            ) from None
        except (RayError, RuntimeError) as error:
            self._kill()
            raise WorkerLost(f"rollout worker {self.index}: {_message(error)}") from None
        self.alive = True
        return dict(facts)

    async def generate(self, prompt_ids: list[int], *, timeout_s: float, **keywords: Any) -> Generation:
        await self._ready()
        self.in_flight += 1
        handle = self.handle
        try:
            return await asyncio.wait_for(_answer(handle.generate.remote(prompt_ids, **keywords)), timeout_s)
        except TimeoutError:
            self._counters["timeouts"] += 1
            if handle is self.handle and not await self._answers():
                raise self._lost(handle, f"rollout worker {self.index} hangs") from None
            with contextlib.suppress(Exception):
                handle.abort.remote(keywords["request_id"])
            raise WorkerLost(
                f"rollout worker {self.index} did not answer within {timeout_s:g} s; raise rollout.generate_timeout_s"
            ) from None
        except Exception as error:
            raise self._failure(handle, error) from None
        finally:
            self.in_flight -= 1

    async def update_weights(self, version: int, descriptor: WeightDescriptor, timeout_s: float) -> float:
        """Seconds. A worker that fails is replaced, which brings the current weights with it."""
        try:
            await self._ready()
            return await self.load(version, descriptor, timeout_s)
        except WorkerLost:
            await self._ready()
            return 0.0

    async def load(self, version: int, descriptor: WeightDescriptor, timeout_s: float) -> float:
        handle = self.handle
        try:
            return await asyncio.wait_for(_answer(handle.update_weights.remote(version, descriptor)), timeout_s)
        except TimeoutError:
            raise self._lost(handle, f"rollout worker {self.index} took over {timeout_s:g} s to load weights") from None
        except Exception as error:
            raise self._failure(handle, error, always=True) from None

    async def call(self, method: str, *arguments: Any, timeout_s: float) -> Any:
        await self._ready()
        handle = self.handle
        try:
            return await asyncio.wait_for(_answer(getattr(handle, method).remote(*arguments)), timeout_s)
        except TimeoutError:
            raise self._lost(
                handle, f"rollout worker {self.index} did not answer {method} in {timeout_s:g} s"
            ) from None
        except Exception as error:
            raise self._failure(handle, error) from None

    async def close(self) -> None:
        self._closed = True
        if self._replacing is not None:
            self._replacing.cancel()
        if self.handle is not None and self.alive:
            with contextlib.suppress(Exception):
                await asyncio.wait_for(_answer(self.handle.shutdown.remote()), SHUTDOWN_TIMEOUT_S)
        self._kill()

    async def _ready(self) -> None:
        """Wait for a replacement that is on its way."""
        if self._replacing is not None:
            await asyncio.shield(self._replacing)
        if not self.alive:
            raise WorkerLost(f"rollout worker {self.index} is not running")

    async def _answers(self) -> bool:
        try:
            return bool(await asyncio.wait_for(_answer(self.handle.ping.remote()), PING_TIMEOUT_S))
        except Exception:
            return False

    def _failure(self, handle: Any, error: Exception, always: bool = False) -> Exception:
        """What to raise for an error of a call: WorkerLost when the worker is dead or its state unknown."""
        from ray.exceptions import RayActorError, RayTaskError

        if always or isinstance(error, RayActorError | RolloutEngineDied):
            return self._lost(handle, f"rollout worker {self.index}: {_message(error)}")
        return error.as_instanceof_cause() if isinstance(error, RayTaskError) else error

    def _lost(self, handle: Any, reason: str) -> WorkerLost:
        """Begin to replace the worker, once, however many requests report it."""
        if handle is self.handle and self.alive and not self._closed:
            self.alive = False
            self._kill()
            self._counters["restarts"] += 1
            self._replacing = asyncio.create_task(self._replace(), name=f"replace rollout worker {self.index}")
            self._replacing.add_done_callback(lambda task: task.cancelled() or task.exception())
        return WorkerLost(reason)

    async def _replace(self) -> None:
        for attempt in range(START_ATTEMPTS):
            try:
                await self.start()
                await self._restore(self)
                return
            except WorkerLost:
                self.alive = False
                if attempt == START_ATTEMPTS - 1:
                    raise

    def _kill(self) -> None:
        import ray

        self.alive = False
        if self.handle is not None:
            with contextlib.suppress(Exception):
                ray.kill(self.handle)


async def _answer(reference: Any) -> Any:
    return await reference


def _message(error: BaseException) -> str:
    """The worker's own words, without Ray's traceback."""
    cause = getattr(error, "cause", None)
    text = str(cause if cause is not None else error).strip()
    return text.splitlines()[-1] if text else type(error).__name__
