"""Collection: whole groups of trajectories, every loss counted, every lost group replaced by the next task."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

from agentrl.driver.batch import Group
from agentrl.driver.episodes import EpisodeFactory
from agentrl.driver.tasks import TaskCursor
from agentrl.environments.pool import TrajectoryLost


class CollectionFailed(RuntimeError):
    """So many groups were lost in one step that something is broken; the message says what was lost and why."""


@dataclass
class Collected:
    groups: list[Group]
    counts: dict[str, int]  # dropped_trajectories, retried_trajectories, dropped_groups of this step
    reasons: list[str] = field(default_factory=list)  # why trajectories were dropped


class Collector:
    """Collects `groups_per_step` whole groups. A group goes on with `min_group_size` members, else it is replaced."""

    def __init__(self, episodes: EpisodeFactory, groups: int, group_size: int, min_group_size: int, replacements: int):
        self.episodes = episodes
        self.groups = groups
        self.group_size = group_size
        self.min_group_size = min_group_size
        self.replacements = replacements

    async def collect(self, step: int, cursor: TaskCursor) -> Collected:
        """Run the groups of `step` concurrently; no trajectory waits for another.

        The groups come back in the order of their tasks, whatever the order of completion, so that a step's batch
        depends on the seeds alone. Raises CollectionFailed after more than `replacements` lost groups.
        """
        counts: Counter[str] = Counter(dropped_trajectories=0, retried_trajectories=0, dropped_groups=0)
        reasons: list[str] = []
        taken: list[str] = []

        def next_task() -> str:
            taken.append(cursor.next(exclude=taken))
            return taken[-1]

        async def one_group() -> tuple[int, Group]:
            while True:
                place, task = len(taken), next_task()
                results = await asyncio.gather(
                    *(self.episodes.run(task, member, step) for member in range(self.group_size)),
                    return_exceptions=True,
                )
                group: Group = []
                for result in results:
                    if isinstance(result, TrajectoryLost):
                        counts["dropped_trajectories"] += 1
                        reasons.append(f"{task}: {result}")
                    elif isinstance(result, BaseException):
                        raise result
                    else:
                        counts["retried_trajectories"] += bool(result.retries)
                        group.append(result)
                if len(group) >= self.min_group_size:
                    return place, group
                counts["dropped_groups"] += 1
                # its members that did finish are lost with it, and said so
                counts["dropped_trajectories"] += len(group)
                if counts["dropped_groups"] > self.replacements:
                    raise CollectionFailed(
                        f"step {step}: {counts['dropped_groups']} groups were lost, more than trainer.max_replaced_groups="
                        f"{self.replacements}; the last reasons: {'; '.join(reasons[-3:])}"
                    )

        async with asyncio.TaskGroup() as running:
            futures = [running.create_task(one_group()) for _ in range(self.groups)]
        done = sorted((future.result() for future in futures), key=lambda pair: pair[0])
        return Collected([group for _, group in done], dict(counts), reasons)
