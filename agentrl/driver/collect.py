"""Collection: whole groups of trajectories, every loss counted, every lost group replaced by the next task.

Dynamic sampling (DAPO, Yu et al., 2025): a group whose trajectories all have the same return teaches nothing, and is
replaced by the next task too, up to a bound.
"""

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
    # dropped_trajectories, retried_trajectories, dropped_groups, resampled_groups, unequal_groups of this step
    counts: dict[str, int]
    reasons: list[str] = field(default_factory=list)  # why trajectories were dropped
    unequal: list[str] = field(default_factory=list)  # tasks whose trajectories did not all start alike

    @property
    def warnings(self) -> list[str]:
        """A sentence for each."""
        return [
            *(f"a trajectory was dropped: {reason}" for reason in self.reasons),
            *(
                f"{task}: the trajectories of its group saw different first pages, so their returns compare different "
                "tasks; is the environment repeatable?"
                for task in self.unequal
            ),
        ]


class Collector:
    """Collects `groups` whole groups. A group goes on with `min_group_size` members, else it is replaced.

    resampled: most groups without spread that are replaced in one step; those beyond it stay.
    """

    def __init__(
        self,
        episodes: EpisodeFactory,
        groups: int,
        group_size: int,
        min_group_size: int,
        replacements: int,
        resampled: int = 0,
    ) -> None:
        self.episodes = episodes
        self.groups = groups
        self.group_size = group_size
        self.min_group_size = min_group_size
        self.replacements = replacements
        self.resampled = resampled

    async def collect(self, step: int, cursor: TaskCursor) -> Collected:
        """Run the groups of `step` concurrently; no trajectory waits for another.

        The groups come back in the order of their tasks, whatever the order of completion, so that a step's batch
        depends on the seeds alone. Raises CollectionFailed after more than `replacements` lost groups.
        """
        counts: Counter[str] = Counter(
            dropped_trajectories=0, retried_trajectories=0, dropped_groups=0, resampled_groups=0
        )
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

        async def some_groups(number: int) -> list[Group]:
            async with asyncio.TaskGroup() as running:
                futures = [running.create_task(one_group()) for _ in range(number)]
            return [group for _, group in sorted((future.result() for future in futures), key=lambda pair: pair[0])]

        groups = await some_groups(self.groups)
        # In rounds, so that which tasks are taken does not depend on who ends first.
        while silent := [k for k, group in enumerate(groups) if not has_spread(group)]:
            number = min(len(silent), self.resampled - counts["resampled_groups"])
            if number <= 0:
                break
            counts["resampled_groups"] += number
            for k, group in zip(silent, await some_groups(number), strict=False):
                groups[k] = group
        unequal = [group[0].task_id for group in groups if not starts_alike(group)]
        counts["unequal_groups"] = len(unequal)
        return Collected(groups, dict(counts), reasons, unequal)


def has_spread(group: Group) -> bool:
    """Whether the trajectories differ in their return."""
    return len({trajectory.total_reward for trajectory in group}) > 1


def starts_alike(group: Group) -> bool:
    """Whether all trajectories began with the same page in the same state, which is what comparing them takes."""
    return len({(t.turns[0].observation, t.turns[0].state_key) for t in group if t.turns}) <= 1
