"""Which tasks come next: a seeded permutation per pass over the split, and a position that a checkpoint stores."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np


class TaskCursor:
    """Walks the training tasks in an order that depends on (run seed, pass) only.

    `position` counts tasks handed out since the run began; it is the whole state. A replaced group simply takes the
    next task, so a resumed run goes on exactly where the stopped one was.
    """

    def __init__(self, task_ids: list[str], seed: int, position: int = 0) -> None:
        if not task_ids:
            raise ValueError("there are no tasks to train on: the split is empty")
        self.task_ids = list(task_ids)
        self.seed = seed
        self.position = position
        self._pass = -1
        self._order = np.empty(0, dtype=np.int64)

    def next(self, exclude: Collection[str] = ()) -> str:
        """The next task that is not in `exclude` (a task appears at most once in a training step)."""
        for _ in range(2 * len(self.task_ids)):
            task = self._at(self.position)
            self.position += 1
            if task not in exclude:
                return task
        raise ValueError(
            f"the split has {len(self.task_ids)} tasks, too few for the groups of one training step; "
            "lower trainer.groups_per_step"
        )

    def _at(self, position: int) -> str:
        turn, index = divmod(position, len(self.task_ids))
        if turn != self._pass:
            self._order = np.random.default_rng([self.seed, turn]).permutation(len(self.task_ids))
            self._pass = turn
        return self.task_ids[int(self._order[index])]
