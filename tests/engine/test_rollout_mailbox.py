"""Requests and answers between the driver and one worker: none is lost, whoever fails, in whatever order they end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import Any

import pytest

from agentrl.engine.rollout_spec import RolloutSpec
from agentrl.engine.rollout_worker import Request, RolloutRefused, RolloutWorker
from agentrl.engine.router import RolloutFailed, RolloutRouter
from agentrl.engine.router_mailbox import Mailbox
from agentrl.engine.router_slot import WorkerLost
from agentrl.episode.records import Generation

SPEC = RolloutSpec(model_path="none")


def run(main: Coroutine[Any, Any, None]) -> None:
    """With a deadline: what is lost here is waited for without end."""
    asyncio.run(asyncio.wait_for(main, 20))


class Worker(RolloutWorker):
    """The real worker without an engine: request number n is answered after n % 5 rounds of the loop."""

    async def generate(self, request: Request) -> Generation:
        for _ in range(int(request.request_id) % 5):
            await asyncio.sleep(0.002)
        if request.prompt_ids == [0]:
            raise RolloutRefused("vLLM refuses a prompt of 1 tokens: 0")
        return Generation([request.prompt_ids[0] + 1], [-0.5], "stop", 3, 0)


class Handle:
    """Ray's `handle.method.remote(...)` inside one process. `dead`: every call fails, as on a killed actor."""

    def __init__(self, worker: RolloutWorker) -> None:
        self.worker = worker
        self.dead = asyncio.Event()
        self.calls: Counter[str] = Counter()

    def __getattr__(self, method: str) -> Any:
        handle = self

        class Method:
            @staticmethod
            def remote(*arguments: Any) -> asyncio.Task[Any]:
                handle.calls[method] += 1
                return asyncio.ensure_future(handle._call(method, *arguments))

        return Method

    async def _call(self, method: str, *arguments: Any) -> Any:
        call = asyncio.ensure_future(getattr(self.worker, method)(*arguments))
        death = asyncio.ensure_future(self.dead.wait())
        await asyncio.wait({call, death}, return_when=asyncio.FIRST_COMPLETED)
        if self.dead.is_set():
            call.cancel()
            raise ConnectionError("the worker is gone")
        death.cancel()
        return call.result()


def request(number: int, token: int = 7) -> Request:
    return Request(str(number), [token], 1)


def test_every_request_gets_its_own_answer_whatever_the_order() -> None:
    async def main() -> None:
        handle = Handle(Worker(SPEC))
        mailbox = Mailbox(handle)

        async def episode(k: int) -> None:  # several turns, one after another, as an episode asks
            for turn in range(4):
                token = 10 * k + turn + 1
                made = await mailbox.ask(request(100 * k + turn * 7 + k % 3, token))
                assert made.token_ids == [token + 1]

        await asyncio.wait_for(asyncio.gather(*(episode(k) for k in range(40))), 20)
        assert len(mailbox) == 0
        assert handle.calls["submit"] < 160  # what is asked at once goes out together

    run(main())


def test_a_refused_request_fails_alone() -> None:
    async def main() -> None:
        mailbox = Mailbox(Handle(Worker(SPEC)))
        good, bad = await asyncio.gather(
            mailbox.ask(request(1)), mailbox.ask(request(2, token=0)), return_exceptions=True
        )
        assert isinstance(good, Generation) and isinstance(bad, RolloutRefused)
        assert (await mailbox.ask(request(3))).token_ids == [8]

    run(main())


def test_a_dead_worker_fails_all_that_is_open() -> None:
    async def main() -> None:
        handle = Handle(Worker(SPEC))
        mailbox = Mailbox(handle)
        asked = [asyncio.ensure_future(mailbox.ask(request(4 + 5 * k))) for k in range(6)]
        await asyncio.sleep(0.001)
        handle.dead.set()
        assert all(isinstance(e, ConnectionError) for e in await asyncio.gather(*asked, return_exceptions=True))

    run(main())


def test_a_cancelled_request_is_stopped_and_the_others_go_on() -> None:
    async def main() -> None:
        handle = Handle(Worker(SPEC))
        mailbox = Mailbox(handle)
        first, second = (asyncio.ensure_future(mailbox.ask(request(n))) for n in (4, 3))
        await asyncio.sleep(0.001)
        first.cancel()
        assert (await second).token_ids == [8]
        await asyncio.gather(first, return_exceptions=True)
        assert handle.calls["abort"] == 1 and len(mailbox) == 0
        assert (await mailbox.ask(request(9))).token_ids == [8]

    run(main())


class Slot:
    """A place that says whom it was asked for; `fail` times it loses its worker."""

    def __init__(self, index: int, fail: int = 0) -> None:
        self.index, self.fail, self.alive, self.in_flight, self.asked = index, fail, True, 0, []
        self.hold = asyncio.Event()

    async def generate(self, request: Request, timeout_s: float) -> Generation:
        self.in_flight += 1
        try:
            if self.fail:
                self.fail -= 1
                raise WorkerLost("rollout worker died")
            self.asked.append((request.request_id, request.seed))
            await self.hold.wait()
            return Generation([1], [-0.1], "stop", 0, 0)
        finally:
            self.in_flight -= 1


def router_over(*slots: Slot, max_retries: int = 3) -> RolloutRouter:
    router = RolloutRouter(SPEC, len(slots), max_retries=max_retries)
    router._slots = list(slots)  # type: ignore[assignment]
    return router


def test_a_trajectory_stays_on_its_worker_and_new_ones_go_where_least_is_to_do() -> None:
    async def main() -> None:
        slots = [Slot(0), Slot(1)]
        router = router_over(*slots)
        asked = []
        for k in range(6):
            asked.append(asyncio.ensure_future(router.generate([k], trajectory_key=k, max_tokens=1, seed=k)))
            await asyncio.sleep(0)
        assert [len(slot.asked) for slot in slots] == [3, 3]
        for slot in slots:
            slot.hold.set()
        await asyncio.gather(*asked)
        slots[1].hold.clear()
        busy = asyncio.ensure_future(router.generate([1], trajectory_key=1, max_tokens=1, seed=1))  # worker 1 as before
        await asyncio.sleep(0)
        assert slots[1].asked[-1][1] == 1 and slots[1].in_flight == 1
        await router.generate([0], trajectory_key=0, max_tokens=1, seed=77)
        assert slots[0].asked[-1][1] == 77
        slots[1].hold.set()
        await busy
        router.release(1)
        assert 1 not in router._placed

    run(main())


def test_a_lost_request_is_asked_again_with_the_same_seed_and_counted() -> None:
    async def main() -> None:
        slot = Slot(0, fail=2)
        slot.hold.set()
        router = router_over(slot)
        await router.generate([5], trajectory_key="t", max_tokens=1, seed=9)
        assert slot.asked == [("0-2", 9)] and router.counters["retries"] == 2

        slot.fail = 10
        with pytest.raises(RolloutFailed, match="failed 4 times; the last reason: rollout worker died"):
            await router.generate([5], trajectory_key="t", max_tokens=1, seed=9)
        assert router.counters["retries"] == 5

    run(main())
