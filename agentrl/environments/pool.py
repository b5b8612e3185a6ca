"""The pool: slots for environment sessions on many servers."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from typing import Any

from agentrl.environments.faults import EnvironmentServerError, TrajectoryLost
from agentrl.environments.handle import ServerHandle
from agentrl.environments.session import EnvironmentSession
from agentrl.environments.waits import Waits, watch

__all__ = ["EnvironmentPool", "EnvironmentServerError", "EnvironmentSession", "TrajectoryLost"]

CLOSE_TIMEOUT_S = 10.0
COUNTERS = (
    "opened",
    "resets",
    "steps",
    "restarts",
    "deaths",
    "hangs",
    "replays",
    "replayed_steps",
    "errors",
    "mismatches",
    "lost",
)


class EnvironmentPool:
    """Environments of one package on `servers` Ray actors with `slots_per_server` environments each.

    async with EnvironmentPool("webshop", {}, servers=2, slots_per_server=64) as pool:
        async with await pool.open("train/000123", seed=7) as session:
            observation, info = await session.reset()
            observation, reward, terminated, truncated, info = await session.step("search[red scarf]")

    Use it within one event loop. `counters`: opened, resets, steps (by trajectories), restarts, deaths, hangs (of
    servers), replays, replayed_steps (recoveries), errors (raised by environments), mismatches, lost (trajectories).

    Args:
        reset_timeout_s, step_timeout_s: for one call, counted from when the server begins with it.
        max_retries: tries that one trajectory may cost before it is lost: the server hung or surely died in its call,
            its environment raised, or its replay came to another observation. A trajectory that only sat on the same
            server is recovered without being charged.
        renew_after: see EnvironmentHost.
        cpus_per_server: what Ray reserves; 0 leaves placement to Ray's spreading.
        stall_after_s: waits longer than this are reported by name.
    """

    def __init__(
        self,
        name: str,
        options: dict[str, Any] | None = None,
        *,
        servers: int = 1,
        slots_per_server: int = 64,
        reset_timeout_s: float = 60.0,
        step_timeout_s: float = 30.0,
        max_retries: int = 3,
        start_timeout_s: float = 120.0,
        renew_after: int | None = None,
        cpus_per_server: float = 0.0,
        stall_after_s: float = 120.0,
        waits: Waits | None = None,
    ) -> None:
        least = {"servers": 1, "slots_per_server": 1, "max_retries": 0}
        for key, value in (("servers", servers), ("slots_per_server", slots_per_server), ("max_retries", max_retries)):
            if value < least[key]:
                raise ValueError(f"environment.{key}={value}: must be at least {least[key]}.")
        self.name = name
        self.reset_timeout_s = reset_timeout_s
        self.step_timeout_s = step_timeout_s
        self.max_retries = max_retries
        self.waits = Waits() if waits is None else waits
        self._stall_after_s = stall_after_s
        self._counters: Counter[str] = Counter()
        arguments = (name, dict(options or {}), renew_after)
        self.servers = [
            ServerHandle(
                index,
                arguments,
                start_timeout_s=start_timeout_s,
                cpus=cpus_per_server,
                max_barren_restarts=max(5, max_retries + 1),
                counters=self._counters,
            )
            for index in range(servers)
        ]
        self._free = [list(reversed(range(slots_per_server))) for _ in range(servers)]
        self._waiting: deque[asyncio.Future[tuple[int, int]]] = deque()
        self._watchdog: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def counters(self) -> dict[str, int]:
        return {name: self._counters[name] for name in COUNTERS}

    @property
    def free_slots(self) -> int:
        return sum(map(len, self._free))

    async def start(self) -> None:
        """Start every server now, so that a package that cannot work is seen at once. Raises EnvironmentServerError."""
        self._begin()
        await asyncio.gather(*(server.ensure() for server in self.servers))

    async def open(self, task_id: str, seed: int, who: str | None = None) -> EnvironmentSession:
        """A session on the server with most free slots; waits, first come first served, while there is none.

        `who` names the trajectory in messages (default: the task). Close the session to give its slot back.
        """
        self._begin()
        who = who or f"task {task_id}"
        index = max(range(len(self.servers)), key=lambda i: len(self._free[i]))
        if self._free[index] and not self._waiting:
            place = index, self._free[index].pop()
        else:
            turn: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                with self.waits.on(who, "a free environment slot"):
                    place = await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled() and turn.exception() is None:
                    self._release(*turn.result())  # it was given a slot in the very moment it was cancelled
                raise
        self._counters["opened"] += 1
        return EnvironmentSession(self, place, task_id, seed, who)

    async def stats(self) -> list[dict[str, int]]:
        """Per server: environments alive, resets, resident memory in bytes."""
        return await asyncio.gather(*(server.stats(self.step_timeout_s) for server in self.servers))

    async def close(self) -> None:
        """Close all environments and end all servers; whoever still waits for a slot gets an error. May be repeated."""
        self._closed = True
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(EnvironmentServerError(f"the environment pool of {self.name} is closed."))
        if self._watchdog is not None:
            self._watchdog.cancel()
            self._watchdog = None
        await asyncio.gather(*(server.close(CLOSE_TIMEOUT_S) for server in self.servers))

    async def __aenter__(self) -> EnvironmentPool:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _begin(self) -> None:
        if self._closed:
            raise EnvironmentServerError(f"the environment pool of {self.name} is closed.")
        if self._watchdog is None:
            self._watchdog = asyncio.get_running_loop().create_task(watch(self.waits, self._stall_after_s))

    def _release(self, server: int, slot: int) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result((server, slot))
                return
        self._free[server].append(slot)
