"""The driver's side of one environment server: calls in order, a deadline for each, the end noticed, a restart."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from agentrl.environments.faults import EnvironmentServerError, ServerGone, first_cause, is_death
from agentrl.environments.server import Process, Raised, server_actor

logger = logging.getLogger(__name__)

START_TRIES = 3


@dataclass(eq=False)
class _Call:
    method: str
    args: tuple[Any, ...]
    owner: object  # the session
    who: str
    new: bool  # not part of a replay
    timeout_s: float
    result: asyncio.Future[Any]
    ref: Any = None  # once it is sent


class ServerHandle:
    """One environment server, started when first needed and again after it died or hung.

    `incarnation` counts starts; a call names the incarnation that its state lives in. The server works through calls
    one by one in the order they were sent, so the clock of a call starts when the one before it is done: a queue of
    slow calls is not mistaken for a hang.

    When a server dies with several calls sent, it cannot be told which of them killed it (answers of earlier ones may
    be lost with it). Nobody is blamed then, but all of them are suspects: calls are sent singly until each suspect has
    got through, so that a call that kills again is known.
    """

    def __init__(
        self,
        index: int,
        host_arguments: tuple[Any, ...],
        *,
        start_timeout_s: float,
        cpus: float,
        max_barren_restarts: int,
        counters: Counter[str],
    ) -> None:
        self.label = f"environment server {index}"
        self.incarnation = 0
        self.process: Process | None = None
        self._arguments = host_arguments
        self._start_timeout_s = start_timeout_s
        self._cpus = cpus
        self._max_barren = max_barren_restarts
        self._counters = counters
        self._actor: Any = None
        self._calls: deque[_Call] = deque()
        self._suspects: set[object] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._starting: asyncio.Task[None] | None = None
        self._barren = 0  # restarts since a call was last answered
        self._last_reason = ""
        self._closed = False

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    async def ensure(self) -> int:
        """The incarnation that is alive now, started if need be. Raises EnvironmentServerError."""
        while self._actor is None:
            if self._closed:
                raise EnvironmentServerError(f"{self.label} is closed.")
            if self._starting is None:
                self._starting = asyncio.get_running_loop().create_task(self._start())
                self._starting.add_done_callback(self._started)
            # many sessions wait for one start; one of them being cancelled must not end it
            try:
                await asyncio.shield(self._starting)
            except asyncio.CancelledError:
                if self._closed:
                    raise EnvironmentServerError(f"{self.label} is closed.") from None
                raise
        return self.incarnation

    async def call(
        self,
        method: str,
        *args: Any,
        owner: object,
        who: str,
        timeout_s: float,
        incarnation: int,
        new: bool = True,
    ) -> Any:
        """The answer of the server. Raises ServerGone; an exception of the environment comes back as Raised.

        `owner` is the session and `who` its name; `new` is False for the calls of a replay.
        """
        if self._actor is None or incarnation != self.incarnation:
            raise ServerGone(f"{self.label} was restarted ({self._last_reason})", culprit=False)
        result = asyncio.get_running_loop().create_future()
        self._calls.append(_Call(method, args, owner, who, new, timeout_s, result))
        self._send()
        return await result

    def acquit(self, owner: object) -> None:
        """`owner` will not call again; it is no suspect any more."""
        self._suspects.discard(owner)
        self._send()

    async def stats(self, timeout_s: float) -> dict[str, Any]:
        """Size of the server process (see EnvironmentHost.stats); empty if it is not running."""
        if self._actor is None:
            return {}
        try:
            return dict(await self._own_call("stats", timeout_s))
        except ServerGone:
            return {}

    async def close(self, timeout_s: float) -> None:
        """Let the server close its environments, then end its process. Never raises for a server that is gone."""
        import ray

        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._actor is not None and ray.is_initialized():
            try:
                await self._own_call("close", timeout_s)
            except ServerGone as gone:
                logger.warning("%s did not close its environments: %s", self.label, gone.reason)
        self._end("closed", None)

    async def _own_call(self, method: str, timeout_s: float) -> Any:
        return await self.call(method, owner=self, who=self.label, timeout_s=timeout_s, incarnation=self.incarnation)

    async def _start(self) -> None:
        import ray

        if self._barren > self._max_barren:
            raise EnvironmentServerError(
                f"{self.label} was restarted {self._barren - 1} times in a row without answering a single call; "
                f"the last time: {self._last_reason.rstrip('.')}."
            )
        reason = ""
        for _ in range(START_TRIES):
            actor = server_actor().options(num_cpus=self._cpus, scheduling_strategy="SPREAD").remote(*self._arguments)
            try:
                answer = asyncio.wrap_future(actor.ready.remote().future())
                ready = await asyncio.wait_for(answer, self._start_timeout_s)
            except TimeoutError:
                reason = (
                    f"not ready within {self._start_timeout_s:.0f} s (does the cluster have {self._cpus:g} free CPUs "
                    "for it, and does one environment start in that time?)"
                )
                ray.kill(actor)
            except ray.exceptions.RayError as error:
                reason = first_cause(error)
                ray.kill(actor)
                # its own code refused: that will not change by trying again
                if isinstance(error, ray.exceptions.RayTaskError) or "creation task" in str(error):
                    break
            except BaseException:
                ray.kill(actor)
                raise
            else:
                self._actor = actor
                self.incarnation += 1
                self.process = ready["process"]
                if self.incarnation > 1:
                    self._counters["restarts"] += 1
                return
        raise EnvironmentServerError(f"{self.label} cannot be started: {reason.rstrip('.')}.")

    def _started(self, task: asyncio.Task[None]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # looked at: those who wait on it get it, and nobody waiting is no error

    def _send(self) -> None:
        """Send what may be sent: everything, or one call at a time while there are suspects."""
        if self._actor is None:
            return
        loop = asyncio.get_running_loop()
        for call in list(self._calls):
            if call.ref is not None:
                if self._suspects:
                    break
                continue
            if call.result.cancelled():  # nobody waits for it any more
                self._calls.remove(call)
                continue
            call.ref = getattr(self._actor, call.method).remote(*call.args)
            answer = asyncio.wrap_future(call.ref.future(), loop=loop)
            answer.add_done_callback(lambda done, call=call: self._answered(call, done))  # type: ignore[misc]
            if self._calls[0] is call:
                self._arm()
            if self._suspects:
                break

    def _answered(self, call: _Call, done: asyncio.Future[Any]) -> None:
        if call not in self._calls:  # its server was given up meanwhile
            if not done.cancelled():
                done.exception()
            return
        if done.cancelled():
            self._end("call cancelled", call)
            return
        error = done.exception()
        if error is not None and is_death(error):
            self._counters["deaths"] += 1
            sent = [call for call in self._calls if call.ref is not None]
            self._suspects |= {call.owner for call in sent}
            self._end(f"it died ({first_cause(error)})", sent[0] if len(sent) == 1 else None)
            return
        self._barren = 0
        was_head = self._calls[0] is call
        self._calls.remove(call)
        if call.new:
            self._suspects.discard(call.owner)
        if was_head:
            self._arm()
        self._send()
        if not call.result.done():  # its waiter may have been cancelled
            call.result.set_result(done.result() if error is None else Raised(str(error), str(error)))

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._calls and self._calls[0].ref is not None:
            head = self._calls[0]
            self._timer = asyncio.get_running_loop().call_later(head.timeout_s, self._expired, head)

    def _expired(self, call: _Call) -> None:
        import ray

        if not self._calls or self._calls[0] is not call:
            return
        # our own loop may have been held up: an answer that is there counts
        if ray.wait([call.ref], timeout=0)[0]:
            self._timer = asyncio.get_running_loop().call_later(1.0, self._expired, call)
            return
        self._counters["hangs"] += 1
        self._end(f"no answer to {call.method} of {call.who} within {call.timeout_s:g} s", call)

    def _end(self, reason: str, culprit: _Call | None) -> None:
        """Kill the process and tell every call in the queue. The next `ensure` starts another."""
        import ray

        actor, self._actor = self._actor, None
        process, self.process = self.process, None
        if actor is not None:
            self._barren += 1
            self._last_reason = reason
            if not self._closed:
                logger.warning("%s (incarnation %d) is given up: %s", self.label, self.incarnation, reason)
            if ray.is_initialized():
                ray.kill(actor)
            if process is not None and not self._closed:
                process.kill()  # at a clean end `ray.kill` is enough, and Ray would report this as a crash
        calls, self._calls = self._calls, deque()
        self._suspects.discard(self)  # a call of our own, such as stats
        self._arm()
        for call in calls:
            if not call.result.done():
                call.result.set_exception(ServerGone(f"{self.label}: {reason}", culprit=call is culprit))
