"""One trajectory's environment, recovered when its server dies or hangs.

A trajectory must not be lost because a process was. A session remembers its task, seed and actions; when its server
is gone, it starts the same task on the new one, steps the same actions, and sees that every observation is the same.
Nothing here ever invents a reward: a session that cannot be recovered raises TrajectoryLost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agentrl.environments.contract import Observed
from agentrl.environments.faults import ServerGone, TrajectoryLost
from agentrl.environments.server import Raised

if TYPE_CHECKING:
    from agentrl.environments.pool import EnvironmentPool


class _Failed(Exception):
    """One try failed. `charged`: it counts against the trajectory's retries. `final`: another try cannot help."""

    def __init__(self, reason: str, charged: bool, final: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.charged = charged
        self.final = final


class EnvironmentSession:
    """One trajectory's environment. Made by EnvironmentPool.open."""

    def __init__(self, pool: EnvironmentPool, place: tuple[int, int], task_id: str, seed: int, who: str) -> None:
        self.task_id = task_id
        self.seed = seed
        self.who = who
        self.recoveries = 0  # times that this trajectory was replayed or tried again
        self._pool = pool
        self._place = place
        self._server = pool.servers[place[0]]
        self._incarnation = 0  # of the server, in which our state lives; 0: nowhere
        self._past: list[Observed] = []  # the first observation and that after each action
        self._actions: list[str] = []
        self._charged = 0
        self._open = True

    async def reset(self) -> tuple[str, dict[str, Any]]:
        """The first observation and info. Raises TrajectoryLost, EnvironmentServerError."""
        self._past, self._actions, self._incarnation = [], [], 0
        seen = await self._persist(None)
        self._past.append(seen)
        return seen.observation, seen.info

    async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, info). Raises TrajectoryLost, EnvironmentServerError."""
        if not self._past:
            raise RuntimeError(f"{self.who}: step was called before reset.")
        if self._past[-1].ended:
            raise RuntimeError(f"{self.who}: step was called after the episode had ended; reset first.")
        seen = await self._persist(action)
        self._past.append(seen)
        self._actions.append(action)
        return seen.observation, seen.reward, seen.terminated, seen.truncated, seen.info

    async def close(self) -> None:
        """Give the slot back. May be repeated."""
        if self._open:
            self._open = False
            self._server.acquit(self)
            self._pool._release(*self._place)

    async def __aenter__(self) -> EnvironmentSession:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _persist(self, action: str | None) -> Observed:
        """Reset (action None) or step, trying again as often as it may."""
        if not self._open:
            raise RuntimeError(f"{self.who}: its environment session is closed.")
        counters = self._pool._counters
        while True:
            try:
                if action is None:
                    seen = await self._reset(new=True)
                    counters["resets"] += 1
                else:
                    if self._incarnation != self._server.incarnation or self._incarnation == 0:
                        await self._replay()
                    seen = await self._call("step", action)
                    counters["steps"] += 1
                return seen
            except _Failed as failed:
                self._incarnation = 0
                self._charged += failed.charged
                if failed.final or self._charged > self._pool.max_retries:
                    counters["lost"] += 1
                    self._server.acquit(self)
                    retries = "" if failed.final else f" (given up after {self._pool.max_retries} retries)"
                    raise TrajectoryLost(f"{self.who}: {failed.reason}{retries}") from None
                self.recoveries += 1

    async def _reset(self, new: bool) -> Observed:
        self._incarnation = await self._server.ensure()
        return await self._call("reset", self.task_id, self.seed, new=new)

    async def _replay(self) -> None:
        """Come back to where the trajectory was, and see that it is the same place."""
        counters = self._pool._counters
        counters["replays"] += 1
        if self._incarnation:  # not after a failure of our own, which is counted where it is caught
            self.recoveries += 1
        seen = await self._reset(new=False)
        for turn, expected in enumerate(self._past):
            if turn > 0:
                seen = await self._call("step", self._actions[turn - 1], new=False)
                counters["replayed_steps"] += 1
            if not seen.same_as(expected):
                counters["mismatches"] += 1
                where = f"action {turn} ({self._actions[turn - 1]!r})" if turn else "reset"
                raise _Failed(f"its replay differs from what it saw before, after {where}", charged=True)

    async def _call(self, method: str, *args: Any, new: bool = True) -> Observed:
        timeout = self._pool.reset_timeout_s if method == "reset" else self._pool.step_timeout_s
        try:
            with self._pool.waits.on(self.who, f"{method} in {self._server.label}"):
                answer = await self._server.call(
                    method,
                    self._place[1],
                    *args,
                    owner=self,
                    who=self.who,
                    timeout_s=timeout,
                    incarnation=self._incarnation,
                    new=new,
                )
        except ServerGone as gone:
            raise _Failed(gone.reason, charged=gone.culprit) from None
        if isinstance(answer, Raised):
            self._pool._counters["errors"] += 1
            raise _Failed(f"its environment raised {answer.error} in {method}", charged=True, final=answer.contract)
        assert isinstance(answer, Observed)
        return answer
