"""The driver's side of generation: places trajectories on rollout workers and survives the death of any of them."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from agentrl.engine.rollout_spec import RolloutSpec
from agentrl.engine.rollout_worker import Request
from agentrl.engine.router_slot import WorkerLost, WorkerSlot
from agentrl.engine.weights import WeightDescriptor
from agentrl.episode.records import Generation


class RolloutFailed(RuntimeError):
    """A request could not be answered within its retries, or no worker can be started."""


class RolloutRouter:
    """Spreads trajectories over workers; all turns of one go to one worker, whose prefix cache knows them.

    A new trajectory goes to the worker with the fewest requests in flight. A dead or hung worker is replaced by one
    with the current weights, and the requests it had are asked again, of whichever worker there is (same seed, same
    answer), at most `max_retries` times each. `counters` says how often.

    timeout_s: deadline of one generation. place_timeout_s: for Ray to find room for a worker. start_timeout_s: for a
    worker to load the model. cpus_per_worker: what Ray counts for one. republish (an attribute, set when there is a
    trainer): sends the current weights to the workers with the handles it is given; needed with weight_transfer "nccl"
    and "ipc", whose descriptors cannot be used twice.
    """

    def __init__(
        self,
        spec: RolloutSpec,
        workers: int = 1,
        *,
        timeout_s: float = 300.0,
        place_timeout_s: float = 180.0,
        start_timeout_s: float = 600.0,
        update_timeout_s: float = 600.0,
        max_retries: int = 3,
        cpus_per_worker: float = 1.0,
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers={workers}: must be at least 1")
        self.spec = spec
        self.timeout_s = timeout_s
        self.update_timeout_s = update_timeout_s
        self.max_retries = max_retries
        self.counters: Counter[str] = Counter(requests=0, retries=0, restarts=0, timeouts=0, updates=0)
        self.version = 0
        self._descriptor: WeightDescriptor | None = None
        self.republish: Callable[[list[Any]], Awaitable[WeightDescriptor]] | None = None
        self._slots = [
            WorkerSlot(
                spec, index, cpus_per_worker, place_timeout_s, start_timeout_s, self._restore_weights, self.counters
            )
            for index in range(workers)
        ]
        self._placed: dict[Hashable, WorkerSlot] = {}
        self._request_numbers = itertools.count()
        self._updating = asyncio.Lock()
        self._restoring = asyncio.Lock()

    async def start(self) -> list[dict[str, Any]]:
        """Start all workers side by side; facts of each (pid, seconds, threads). RolloutFailed with the reason."""
        try:
            return list(await asyncio.gather(*(slot.start() for slot in self._slots)))
        except WorkerLost as error:
            await self.close()
            raise RolloutFailed(str(error)) from None

    async def generate(
        self,
        prompt_ids: list[int],
        *,
        trajectory_key: Hashable,
        max_tokens: int,
        temperature: float = 1.0,
        top_p: float = 1.0,
        seed: int,
    ) -> Generation:
        """One turn. See `RolloutWorker.generate`. RolloutFailed when the retries are used up."""
        self.counters["requests"] += 1
        number = next(self._request_numbers)
        reasons: list[str] = []
        for attempt in range(self.max_retries + 1):
            slot = self._slot(trajectory_key)
            try:
                request = Request(f"{number}-{attempt}", prompt_ids, max_tokens, temperature, top_p, seed)
                return await slot.generate(request, self.timeout_s)
            except WorkerLost as error:
                reasons.append(str(error))
                self.counters["retries"] += attempt < self.max_retries
                if self._placed.get(trajectory_key) is slot:
                    del self._placed[trajectory_key]
        raise RolloutFailed(
            f"a generation for {trajectory_key} failed {len(reasons)} times; the last reason: {reasons[-1]}"
        )

    async def update_weights(self, version: int, descriptor: WeightDescriptor) -> float:
        """Bring all workers to `version`, and empty their prefix caches. Returns the slowest worker's seconds.

        A worker that fails at it is replaced; RolloutFailed when that fails too.
        """
        async with self._updating:
            self._descriptor, self.version = descriptor, version
            self._placed.clear()  # no worker knows a prefix any more, so all may be placed anew
            try:
                seconds = await asyncio.gather(
                    *(slot.update_weights(version, descriptor, self.update_timeout_s) for slot in self._slots)
                )
            except WorkerLost as error:
                raise RolloutFailed(f"weights of version {version} did not reach every worker: {error}") from None
            self.counters["updates"] += 1
            return max(seconds)

    def release(self, trajectory_key: Hashable) -> None:
        """Forget where a finished trajectory was."""
        self._placed.pop(trajectory_key, None)

    def handles(self) -> list[Any]:
        """The workers' Ray handles, for a trainer that sends over "nccl" or "ipc"."""
        return [slot.handle for slot in self._slots]

    async def reset_prefix_cache(self) -> None:
        await self._all("reset_prefix_cache")

    async def sleep(self, level: int = 1) -> None:
        """Free the workers' GPU memory, once their requests are answered."""
        await self._all("sleep", level)

    async def wake(self) -> None:
        await self._all("wake")

    async def stats(self) -> dict[str, float]:
        """Sums over the workers that live, and the counters."""
        total: Counter[str] = Counter()
        for answer in await self._all("stats"):
            total.update(answer)
        prompts = total["prompt_tokens"]
        return {
            **{name: float(value) for name, value in total.items()},
            "cached_share": total["cached_tokens"] / prompts if prompts else 0.0,
            "tokens_per_busy_second": total["tokens"] / total["busy_seconds"] if total["busy_seconds"] else 0.0,
            **{f"router_{name}": float(value) for name, value in self.counters.items()},
        }

    async def close(self) -> None:
        """Stop all workers."""
        await asyncio.gather(*(slot.close() for slot in self._slots))

    async def _all(self, method: str, *arguments: Any) -> list[Any]:
        try:
            return list(await asyncio.gather(*(s.call(method, *arguments, timeout_s=60.0) for s in self._slots)))
        except WorkerLost as error:
            raise RolloutFailed(str(error)) from None

    def _slot(self, key: Hashable) -> WorkerSlot:
        slot = self._placed.get(key)
        if slot is None or not slot.alive:
            slot = min(self._slots, key=lambda s: (not s.alive, s.in_flight, s.index))
            self._placed[key] = slot
        return slot

    async def _restore_weights(self, slot: WorkerSlot) -> None:
        """Bring a worker that was just started again to the current version."""
        if self._descriptor is None:
            return
        if self._descriptor.backend == "shm":
            await slot.load(self.version, self._descriptor, self.update_timeout_s)
            return
        if self.republish is None:
            raise WorkerLost(
                f"weights sent over {self._descriptor.backend} cannot be sent twice and no trainer is known"
            )
        async with self._restoring:  # one transfer group at a time
            receivers = [s for s in self._slots if s.alive or s is slot]
            try:
                self._descriptor = await self.republish([s.handle for s in receivers])
            except Exception as error:
                raise WorkerLost(f"rollout worker {slot.index} could not be given the weights: {error}") from None
            # the others were paused for the transfer too: loading ends it
            await asyncio.gather(*(s.load(self.version, self._descriptor, self.update_timeout_s) for s in receivers))
