"""One place for a rollout worker: starts it, notices that it died or hangs, and puts another in its place."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from agentrl.engine.rollout_spec import RolloutSpec, environment_variables
from agentrl.engine.rollout_worker import Request, RolloutEngineDied, RolloutWorker
from agentrl.engine.router_mailbox import Mailbox
from agentrl.engine.weights import WeightDescriptor
from agentrl.episode.records import Generation

MAX_CONCURRENCY = 1000  # calls that one worker actor has in hand at once; requests are not calls
PING_TIMEOUT_S = 10.0
SHUTDOWN_TIMEOUT_S = 15.0
START_ATTEMPTS = 3  # of a replacement; the first worker of a run gets one


class WorkerLost(RuntimeError):
    """The worker died, hangs or cannot be started; the message says which and why."""


class WorkerSlot:
    """Holds the worker `index`. Its calls raise WorkerLost, and then a replacement is on its way already."""

    def __init__(
        self,
        spec: RolloutSpec,
        index: int,
        cpus: float,
        place_timeout_s: float,
        start_timeout_s: float,
        restore: Callable[[WorkerSlot], Awaitable[None]],
        counters: Counter[str],
    ) -> None:
        self.spec = spec
        self.index = index
        self.cpus = cpus
        self.place_timeout_s = place_timeout_s
        self.start_timeout_s = start_timeout_s
        self.handle: Any = None
        self.mailbox: Mailbox | None = None
        self.alive = False
        self._restore = restore
        self._counters = counters
        self._replacing: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def in_flight(self) -> int:
        return len(self.mailbox) if self.mailbox is not None else 0

    async def start(self) -> dict[str, Any]:
        """Make the actor and load the model."""
        facts = await self._start()
        self.alive = True
        return facts

    async def generate(self, request: Request, timeout_s: float) -> Generation:
        await self._ready()
        handle, mailbox = self.handle, self.mailbox
        assert mailbox is not None
        try:
            return await asyncio.wait_for(mailbox.ask(request), timeout_s)
        except TimeoutError:
            self._counters["timeouts"] += 1
            if not await self._answers(handle):
                raise self._lost(handle, f"rollout worker {self.index} hangs") from None
            raise WorkerLost(
                f"rollout worker {self.index} did not answer within {timeout_s:g} s; raise rollout.generate_timeout_s"
            ) from None
        except Exception as error:
            raise self._failure(handle, error) from None

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
            return float(await asyncio.wait_for(_answer(handle.update_weights.remote(version, descriptor)), timeout_s))
        except TimeoutError:
            raise self._lost(handle, f"rollout worker {self.index} took over {timeout_s:g} s to load weights") from None
        except Exception as error:  # whatever it was, the weights it has now are not to be trusted
            raise self._lost(handle, f"rollout worker {self.index}: {_message(error)}") from None

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

    async def _start(self) -> dict[str, Any]:
        import ray

        options: dict[str, Any] = {
            "num_cpus": self.cpus,
            "max_concurrency": MAX_CONCURRENCY,
            "max_restarts": 0,
            "runtime_env": {"env_vars": environment_variables(self.spec)},
        }
        if self.spec.device == "cuda":
            options["num_gpus"] = self.spec.tensor_parallel_size
        name = f"rollout worker {self.index}"
        self.handle = ray.remote(RolloutWorker).options(**options).remote(self.spec, self.index)
        self.mailbox = Mailbox(self.handle)
        try:
            await asyncio.wait_for(_answer(self.handle.placed.remote()), self.place_timeout_s)
        except TimeoutError:
            self._kill()
            raise WorkerLost(
                f"{name} found no room within {self.place_timeout_s:g} s: it needs {self.cpus:g} CPUs and "
                f"{options.get('num_gpus', 0)} GPUs, and Ray has {_resources()} in all; start Ray with more, or lower "
                f"rollout.workers"
            ) from None
        except Exception as error:
            self._kill()
            raise WorkerLost(f"{name}: {_message(error)}") from None
        try:
            return dict(await asyncio.wait_for(_answer(self.handle.start.remote()), self.start_timeout_s))
        except TimeoutError:
            self._kill()
            raise WorkerLost(f"{name} did not load {self.spec.model_path} within {self.start_timeout_s:g} s") from None
        except Exception as error:
            self._kill()
            raise WorkerLost(f"{name}: {_message(error)}") from None

    async def _ready(self) -> None:
        """Wait for a replacement that is on its way."""
        if self._replacing is not None:
            await asyncio.shield(self._replacing)
        if not self.alive:
            raise WorkerLost(f"rollout worker {self.index} is not running")

    @staticmethod
    async def _answers(handle: Any) -> bool:
        try:
            return bool(await asyncio.wait_for(_answer(handle.ping.remote()), PING_TIMEOUT_S))
        except Exception:
            return False

    def _failure(self, handle: Any, error: Exception) -> Exception:
        """What to raise for an error of a call: WorkerLost when the worker is dead, else the error itself."""
        from ray.exceptions import RayActorError, RayTaskError

        if isinstance(error, RayActorError | RolloutEngineDied):
            return self._lost(handle, f"rollout worker {self.index}: {_message(error)}")
        return error.as_instanceof_cause() if isinstance(error, RayTaskError) else error

    def _lost(self, handle: Any, reason: str) -> WorkerLost:
        """Begin to replace the worker, once, however many requests report it."""
        if handle is self.handle and self.alive and not self._closed:
            self._kill()
            self._counters["restarts"] += 1
            self._replacing = asyncio.create_task(self._replace(), name=f"replace rollout worker {self.index}")
            self._replacing.add_done_callback(lambda task: task.cancelled() or task.exception())
        return WorkerLost(reason)

    async def _replace(self) -> None:
        for attempt in range(START_ATTEMPTS):
            try:
                await self._start()
                await self._restore(self)
                self.alive = True
                return
            except WorkerLost:
                self._kill()
                if attempt == START_ATTEMPTS - 1:
                    raise

    def _kill(self) -> None:
        import ray

        self.alive = False
        if self.mailbox is not None and self._closed:
            self.mailbox.close()
        if self.handle is not None:
            with contextlib.suppress(Exception):
                ray.kill(self.handle)


async def _answer(reference: Any) -> Any:
    return await reference


def _resources() -> str:
    import ray

    found = ray.cluster_resources()
    return f"{found.get('CPU', 0):g} CPUs and {found.get('GPU', 0):g} GPUs"


def _message(error: BaseException) -> str:
    """The worker's own words, without Ray's traceback."""
    cause = getattr(error, "cause", None)
    text = str(cause if cause is not None else error).strip()
    return text.splitlines()[-1] if text else type(error).__name__
