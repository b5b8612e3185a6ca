"""The pool on a real Ray: real processes are killed, hang, stand still or raise, and no trajectory may notice."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentrl.environments import EnvironmentPool, EnvironmentServerError, TrajectoryLost

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("local_ray")]

TASKS = [f"train/{index}" for index in range(12)]
Story = list[tuple[str, float, bool]]


def pool_of(name: str = "corridor_plugin:", options: dict[str, Any] | None = None, **settings: Any) -> EnvironmentPool:
    plain = {"servers": 1, "slots_per_server": 16, "step_timeout_s": 20.0, "reset_timeout_s": 20.0}
    return EnvironmentPool(name, options, **{**plain, **settings})


async def play(pool: EnvironmentPool, task_id: str, pause: Callable[[int], Any] | None = None) -> tuple[Story, int]:
    """Walk to the door and open it; (what was seen, recoveries). `pause(turn)` is awaited before each action."""
    async with await pool.open(task_id, seed=5) as session:
        observation, _ = await session.reset()
        story: Story = [(observation, 0.0, False)]
        while not story[-1][2]:
            if pause is not None:
                await pause(len(story))
            action = "open" if "door" in observation else "right"
            observation, reward, terminated, _, _ = await session.step(action)
            story.append((observation, reward, terminated))
        return story, session.recoveries


async def play_all(pool: EnvironmentPool, tasks: list[str] = TASKS, **how: Any) -> list[Any]:
    return await asyncio.gather(*(play(pool, task, **how) for task in tasks), return_exceptions=True)


def faulty(folder: Path, *names: str) -> dict[str, Any]:
    for name in names:
        (folder / name).touch()
    return {"faults": str(folder), "log": str(folder / "log")}


def alive(pid: int) -> bool:
    """Running or stopped; a zombie that Ray has yet to reap is not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int, within_s: float = 15.0) -> bool:
    limit = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < limit:
        await asyncio.sleep(0.1)
    return not alive(pid)


@pytest.fixture(scope="module")
def undisturbed(local_ray: None) -> list[Story]:
    """What every task shows when nothing happens."""

    async def main() -> list[Story]:
        async with pool_of() as pool:
            results = await play_all(pool)
            quiet = {name: 0 for name in pool.counters} | {"opened": 12, "resets": 12}
            assert {**pool.counters, "steps": 0} == quiet
            assert pool.counters["steps"] == sum(len(story) - 1 for story, _ in results)
            return [story for story, _ in results]

    stories = asyncio.run(main())
    assert all(story[-1][1:] == (1.0, True) for story in stories)
    return stories


def test_a_killed_server_is_restarted_and_its_trajectories_replayed(undisturbed: list[Story]) -> None:
    async def main() -> None:
        async with pool_of(servers=2, slots_per_server=6) as pool:
            victim, other = (server.pid for server in pool.servers)
            assert victim is not None and other is not None
            arrived, killed = asyncio.Event(), asyncio.Event()
            here = 0

            async def pause(turn: int) -> None:
                # all trajectories stand after two actions, or at their end, when the server dies
                nonlocal here
                if turn == 3:
                    here += 1
                    if here == len(TASKS):
                        arrived.set()
                    await killed.wait()

            playing = asyncio.create_task(play_all(pool, pause=pause))
            await asyncio.wait_for(arrived.wait(), 30)
            os.kill(victim, signal.SIGKILL)
            assert await gone(victim)
            killed.set()
            results = await playing
            assert [story for story, _ in results] == undisturbed
            assert sorted(recoveries for _, recoveries in results) == [0] * 6 + [1] * 6
            counters = pool.counters
            assert (counters["restarts"], counters["deaths"], counters["lost"]) == (1, 1, 0)
            assert counters["replays"] == 6
            assert counters["replayed_steps"] == 6 * 2
            assert counters["steps"] == sum(len(story) - 1 for story in undisturbed)
            assert pool.servers[0].pid not in (None, victim)
            assert pool.servers[1].pid == other

    asyncio.run(main())


@pytest.mark.slow
def test_kills_at_any_moment(undisturbed: list[Story]) -> None:
    async def main() -> None:
        async with pool_of(slots_per_server=5, max_retries=10) as pool:  # fewer slots than trajectories

            async def pause(turn: int) -> None:
                await asyncio.sleep(0.15)

            playing = asyncio.create_task(play_all(pool, pause=pause))
            for _ in range(3):
                await asyncio.sleep(0.4)
                await pool.servers[0].ensure()
                pid = pool.servers[0].pid
                if pid is not None:
                    os.kill(pid, signal.SIGKILL)
                    await gone(pid)
            results = await playing
            assert [story for story, _ in results] == undisturbed
            assert pool.counters["restarts"] == pool.counters["deaths"] == 3
            assert pool.counters["lost"] == 0
            assert pool.free_slots == 5

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["crash", "hang", "stop", "raise"])
def test_a_fault_that_passes_costs_a_retry_and_nothing_else(
    kind: str, tmp_path: Path, undisturbed: list[Story]
) -> None:
    async def main() -> None:
        async with pool_of(options=faulty(tmp_path, f"train_3.{kind}"), step_timeout_s=2.0) as pool:
            first = pool.servers[0].pid
            assert first is not None
            results = await play_all(pool)
            assert [story for story, _ in results] == undisturbed
            assert results[3][1] == 1
            counters = pool.counters
            died, hung = int(kind == "crash"), int(kind in ("hang", "stop"))
            assert (counters["deaths"], counters["hangs"]) == (died, hung)
            assert counters["restarts"] == died + hung
            assert counters["errors"] == int(kind == "raise")
            assert counters["lost"] == counters["mismatches"] == 0
            if kind == "raise":  # its neighbours did not notice
                assert sum(recoveries for _, recoveries in results) == 1
            else:
                assert await gone(first), "the process that hung still runs"

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["crash", pytest.param("hang", marks=pytest.mark.slow), "raise"])
def test_a_fault_that_stays_loses_that_trajectory_only(kind: str, tmp_path: Path, undisturbed: list[Story]) -> None:
    async def main() -> None:
        options = faulty(tmp_path, f"train_3.{kind}.always")
        async with pool_of(options=options, step_timeout_s=1.5, max_retries=2) as pool:
            results = await play_all(pool)
            lost = results[3]
            assert isinstance(lost, TrajectoryLost)
            assert "task train/3" in lost.reason
            assert "given up after 2 retries" in lost.reason
            words = {"crash": "died", "hang": "no answer to step", "raise": "RuntimeError: the lamp went out in step"}
            assert words[kind] in lost.reason
            others = [result for result in results if result is not lost]
            # the neighbours sat through three restarts, more than max_retries, and are not charged for them
            assert [story for story, _ in others] == undisturbed[:3] + undisturbed[4:]
            assert pool.counters["lost"] == 1
            # a death that might have been any of several calls is not charged: it costs one more restart
            tries = (tmp_path / "log").read_text().count(f"fault {kind}")
            assert tries in ((3, 4) if kind == "crash" else (3,))
            assert pool.counters["restarts"] in ((0,) if kind == "raise" else (tries - 1, tries))
            assert pool.free_slots == 16
            story, recoveries = await play(pool, "train/5")  # and the pool goes on
            assert (story, recoveries) == (undisturbed[5], 0)

    asyncio.run(main())


def test_no_retries_means_none(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool_of(options=faulty(tmp_path, "train_0.raise"), max_retries=0) as pool:
            with pytest.raises(TrajectoryLost, match="given up after 0 retries"):
                await play(pool, "train/0")

    asyncio.run(main())


def test_a_replay_that_differs_is_never_taken_for_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool_of(options={"drift": True}, max_retries=2) as pool:
            async with await pool.open("train/0", 5) as session:
                await session.reset()
                await session.step("right")
                assert pool.servers[0].pid is not None
                os.kill(pool.servers[0].pid, signal.SIGKILL)
                with pytest.raises(TrajectoryLost, match="its replay differs from what it saw before, after reset"):
                    await session.step("right")
            # the death itself was one of the three tries if the call was already on its way
            assert pool.counters["mismatches"] in (2, 3)
            assert pool.counters["lost"] == 1

    asyncio.run(main())


def test_a_broken_contract_is_not_tried_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool_of("broken_plugins:lacks_key") as pool:
            with pytest.raises(TrajectoryLost, match="info of reset lacks 'state_key'"):
                await play(pool, "train/0")
            assert (pool.counters["errors"], pool.counters["lost"]) == (1, 1)

    asyncio.run(main())


def test_an_answer_that_cannot_be_read_costs_its_trajectory_only() -> None:
    async def main() -> None:
        async with pool_of(options={"unreadable": True}, max_retries=1) as pool:
            with pytest.raises(TrajectoryLost, match="no number"):
                await play(pool, "train/0")
            assert (pool.counters["restarts"], pool.counters["deaths"], pool.counters["lost"]) == (0, 0, 1)

    asyncio.run(main())


def test_closing_while_a_server_starts_ends_it() -> None:
    async def main() -> None:
        pool = pool_of()
        starting = asyncio.create_task(pool.start())
        await asyncio.sleep(0.3)
        await pool.close()
        with pytest.raises(EnvironmentServerError, match="is closed"):
            await starting

    asyncio.run(main())


def test_a_long_queue_is_no_hang() -> None:
    async def main() -> None:
        # 12 resets of 0.3 s in a row take longer than the deadline of one
        async with pool_of(options={"slow": 0.3}, reset_timeout_s=2.0) as pool:
            results = await play_all(pool)
            assert not any(isinstance(result, BaseException) for result in results)
            assert pool.counters["hangs"] == pool.counters["restarts"] == 0

    asyncio.run(main())


def test_a_blocked_driver_is_no_hang() -> None:
    async def main() -> None:
        async with pool_of(step_timeout_s=0.5) as pool, await pool.open("train/0", 5) as session:
            await session.reset()
            stepping = asyncio.create_task(session.step("right"))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            time.sleep(1.5)  # the answer is there, but nobody could look
            await stepping
            assert pool.counters["hangs"] == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("webshp", {}, "no installed package offers it"),
        ("corridor_plugin:", {"colour": "red"}, "unexpected keyword argument 'colour'"),
    ],
)
def test_servers_that_cannot_start_stop_the_run(name: str, options: dict[str, Any], words: str) -> None:
    async def main() -> None:
        pool = pool_of(name, options)
        try:
            with pytest.raises(EnvironmentServerError) as caught:
                await pool.start()
            assert "environment server 0 cannot be started" in str(caught.value)
            assert words in str(caught.value)
        finally:
            await pool.close()

    asyncio.run(main())


def test_no_free_cpu_is_said_and_not_waited_for() -> None:
    async def main() -> None:
        pool = pool_of(cpus_per_server=64.0, start_timeout_s=0.5)
        try:
            with pytest.raises(EnvironmentServerError, match="have 64 free CPUs"):
                await pool.start()
        finally:
            await pool.close()

    asyncio.run(main())


@pytest.mark.slow
def test_a_server_that_always_dies_stops_the_run(tmp_path: Path) -> None:
    async def main() -> None:
        async with pool_of(options=faulty(tmp_path, "reset.crash.always")) as pool:
            results = await play_all(pool)
            assert all(isinstance(result, EnvironmentServerError | TrajectoryLost) for result in results)
            fatal = [result for result in results if isinstance(result, EnvironmentServerError)]
            assert fatal and "times in a row without answering a single call" in str(fatal[0])
            assert pool.counters["restarts"] <= 6

    asyncio.run(main())


def test_sessions_wait_for_slots_in_order_and_cancelled_ones_give_them_back() -> None:
    async def main() -> None:
        async with pool_of(slots_per_server=1) as pool:
            first = await pool.open("train/0", 5)
            order: list[str] = []

            async def later(task_id: str) -> None:
                async with await pool.open(task_id, 5) as session:
                    order.append(task_id)
                    await session.reset()

            tasks = [asyncio.create_task(later(task_id)) for task_id in ("train/1", "train/2", "train/3")]
            await asyncio.sleep(0.05)
            assert order == []
            assert "task train/1 waits for a free environment slot" in pool.waits.describe()
            tasks[1].cancel()
            await first.close()
            await first.close()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert order == ["train/1", "train/3"]
            assert pool.free_slots == 1
            # cancelled in the moment after it was given the slot
            holder = await pool.open("train/0", 5)
            waiter = asyncio.create_task(later("train/9"))
            await asyncio.sleep(0.05)
            await holder.close()
            waiter.cancel()
            await asyncio.gather(waiter, return_exceptions=True)
            assert pool.free_slots == 1
            # cancelled while its call ran: the slot's next user is not disturbed
            async with await pool.open("train/2", 5) as session:
                stepping = asyncio.create_task(session.reset())
                await asyncio.sleep(0)
                stepping.cancel()
            story, recoveries = await play(pool, "train/4")
            assert recoveries == 0 and story[-1][2]

    asyncio.run(main())


def test_misuse_of_a_session_is_an_error() -> None:
    async def main() -> None:
        async with pool_of() as pool:
            session = await pool.open("train/0", 5)
            with pytest.raises(RuntimeError, match="step was called before reset"):
                await session.step("right")
            observation, _ = await session.reset()
            while "door" not in observation:
                observation, *_ = await session.step("right")
            await session.step("open")
            with pytest.raises(RuntimeError, match="after the episode had ended"):
                await session.step("right")
            await session.close()
            with pytest.raises(RuntimeError, match="is closed"):
                await session.reset()

    asyncio.run(main())


def test_close_leaves_nothing_behind(tmp_path: Path) -> None:
    async def main() -> None:
        pool = pool_of(options=faulty(tmp_path), servers=2, slots_per_server=1)
        await pool.start()
        pids = [server.pid for server in pool.servers]
        sessions = [await pool.open(task, 5) for task in TASKS[:2]]
        for session in sessions:
            await session.reset()
        waiter = asyncio.create_task(pool.open("train/2", 5))
        await asyncio.sleep(0.05)
        await pool.close()
        await pool.close()
        with pytest.raises(EnvironmentServerError, match="is closed"):
            await waiter
        with pytest.raises(EnvironmentServerError, match="is closed"):
            await pool.open("train/3", 5)
        for pid in pids:
            assert pid is not None and await gone(pid)
        assert (tmp_path / "log").read_text().count("close") == 2
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        assert left == []

    asyncio.run(main())


def test_the_watchdog_names_who_waits_on_a_hung_server(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        options = faulty(tmp_path, "train_3.hang")
        async with pool_of(options=options, step_timeout_s=3.0, stall_after_s=1.0) as pool:
            await play(pool, "train/3")

    asyncio.run(main())
    assert "task train/3 waits for step in environment server 0" in caplog.text


def test_sizes_are_told() -> None:
    async def main() -> None:
        async with pool_of() as pool:
            await play_all(pool)
            (stats,) = await pool.stats()
            assert 1 <= stats["environments"] <= 16
            assert stats["rss_bytes"] > 10 << 20
        with pytest.raises(ValueError, match=r"environment\.servers=0: must be at least 1"):
            pool_of(servers=0)

    asyncio.run(main())
