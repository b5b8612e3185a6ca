"""Whole groups only; every loss counted; the task order is a function of the seed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from agentrl.driver.collect import CollectionFailed, Collector
from agentrl.driver.tasks import TaskCursor
from agentrl.environments.pool import TrajectoryLost
from agentrl.episode.records import Trajectory, Turn

TASKS = [f"train/{number:06d}" for number in range(10)]


class Episodes:
    """Stands for the episode factory; loses what it is told to lose (an injected fault)."""

    def __init__(self, lost: set[tuple[str, int]] = frozenset(), all_lost: bool = False) -> None:  # type: ignore[assignment]
        self.lost, self.all_lost, self.ran = lost, all_lost, []  # type: ignore[var-annotated]

    async def run(self, task: str, member: int, step: int) -> Trajectory:
        self.ran.append((task, member))
        # later groups end first: the order of completion must not show
        await asyncio.sleep(0.001 * (10 - int(task[-2:])))
        if self.all_lost or (task, member) in self.lost:
            raise TrajectoryLost("the server died three times")
        return Trajectory(0, step, task, member, retries=int(member == 1))


def collect(episodes: Any, cursor: TaskCursor, minimum: int = 3, replacements: int = 2) -> Any:
    return asyncio.run(Collector(episodes, 3, 3, minimum, replacements).collect(1, cursor))


def test_groups_come_in_the_order_of_their_tasks() -> None:
    cursor = TaskCursor(TASKS, seed=0)
    expected = [TaskCursor(TASKS, seed=0, position=p).next() for p in range(3)]
    collected = collect(Episodes(), cursor)
    assert [group[0].task_id for group in collected.groups] == expected
    assert [t.member for t in collected.groups[0]] == [0, 1, 2]
    assert collected.counts == {
        "dropped_trajectories": 0,
        "retried_trajectories": 3,
        "dropped_groups": 0,
        "resampled_groups": 0,
        "unequal_groups": 0,
    }
    assert cursor.position == 3


def test_a_group_that_is_too_small_is_replaced_and_counted() -> None:
    victim = TaskCursor(TASKS, seed=0).next()
    collected = collect(Episodes({(victim, 2)}), TaskCursor(TASKS, seed=0))
    assert len(collected.groups) == 3 and all(len(group) == 3 for group in collected.groups)
    assert victim not in [group[0].task_id for group in collected.groups]
    assert collected.counts["dropped_groups"] == 1 and collected.counts["dropped_trajectories"] == 3
    assert "the server died" in collected.reasons[0]


def test_a_group_that_is_large_enough_goes_on() -> None:
    victim = TaskCursor(TASKS, seed=0).next()
    collected = collect(Episodes({(victim, 2)}), TaskCursor(TASKS, seed=0), minimum=2)
    assert [len(group) for group in collected.groups] == [2, 3, 3]
    assert collected.counts["dropped_trajectories"] == 1 and collected.counts["dropped_groups"] == 0


def test_too_many_losses_stop_the_run_with_the_reason() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        collect(Episodes(all_lost=True), TaskCursor(TASKS, seed=0))
    assert caught.group_contains(CollectionFailed, match="the server died")


def test_task_order_is_a_permutation_per_pass_and_resumes_anywhere() -> None:
    cursor = TaskCursor(TASKS, seed=4)
    order = [cursor.next() for _ in range(25)]
    assert sorted(order[:10]) == sorted(order[10:20]) == TASKS and order[:10] != order[10:20]
    assert [TaskCursor(TASKS, seed=4, position=17).next()] == order[17:18]
    assert [TaskCursor(TASKS, seed=5).next() for _ in range(1)] != order[:1] or TaskCursor(TASKS, 5)._at(1) != order[1]


def test_too_few_tasks_for_a_step() -> None:
    cursor = TaskCursor(TASKS[:1], seed=0)
    cursor.next()
    with pytest.raises(ValueError, match="groups_per_step"):
        cursor.next(exclude=TASKS)


class Graded(Episodes):
    """Every third task has trajectories of different return, the others have equal ones."""

    async def run(self, task: str, member: int, step: int) -> Trajectory:
        trajectory = await super().run(task, member, step)
        spread = int(task[-2:]) % 3 == 0
        trajectory.turns = [Turn([1], [2], [-0.1], "o", "t", "a", reward=float(spread and member == 0))]
        return trajectory


@pytest.mark.parametrize("limit", [0, 1, 2, 6])
def test_groups_without_spread_are_sampled_anew_up_to_a_bound(limit: int) -> None:
    order = [TaskCursor(TASKS, seed=0, position=p).next() for p in range(len(TASKS))]
    cursor = TaskCursor(TASKS, seed=0)
    collected = asyncio.run(Collector(Graded(), 3, 3, 3, 2, limit).collect(1, cursor))
    expected, taken, left = order[:3], 3, limit
    while silent := [k for k, task in enumerate(expected) if int(task[-2:]) % 3]:
        number = min(left, len(silent))
        if not number:
            break
        for k in silent[:number]:
            expected[k], taken = order[taken], taken + 1
        left -= number
    assert [group[0].task_id for group in collected.groups] == expected
    assert cursor.position == taken and collected.counts["resampled_groups"] == limit - left


def test_a_group_whose_members_start_otherwise_is_flagged() -> None:
    class Unrepeatable(Graded):
        async def run(self, task: str, member: int, step: int) -> Trajectory:
            trajectory = await super().run(task, member, step)
            if task == victim and member == 1:
                trajectory.turns[0].observation = "another page"
            return trajectory

    victim = TaskCursor(TASKS, seed=0, position=1).next()
    collected = collect(Unrepeatable(), TaskCursor(TASKS, seed=0))
    assert collected.counts["unequal_groups"] == 1 and collected.unequal == [victim]
    (warning,) = collected.warnings
    assert victim in warning and "different first pages" in warning
