"""The Ray actor of one rank. It is what the driver imports: verl's engines (3 s) are imported only where they run."""

from __future__ import annotations

from typing import Any

import numpy as np
from verl.single_controller.base import Worker
from verl.single_controller.base.decorator import Dispatch, register

from agentrl.engine.training_plan import WorkerPlan
from agentrl.engine.training_spec import TrainingSpec


class TrainingActor(Worker):
    """Passes every call to the `TrainingWorker` of its process, which documents them.

    ALL_TO_ALL: the driver gives one argument per rank; ONE_TO_ALL: the same to all. All ranks are called at once.
    """

    def __init__(self, spec: TrainingSpec, store_address: tuple[str, int] | None) -> None:
        super().__init__()
        from agentrl.engine.training_worker import TrainingWorker

        self.worker = TrainingWorker(spec, store_address)

    @register(dispatch_mode=Dispatch.ALL_TO_ALL)
    def row_log_probs(self, plan: WorkerPlan, model: str, temperature: float) -> list[tuple[int, np.ndarray]]:
        return self.worker.row_log_probs(plan, model, temperature)

    @register(dispatch_mode=Dispatch.ALL_TO_ALL)
    def update(self, plan: WorkerPlan, temperature: float) -> dict[str, float]:
        return self.worker.update(plan, temperature)

    @register(dispatch_mode=Dispatch.ALL_TO_ALL)
    def values(self, plan: WorkerPlan) -> list[tuple[int, np.ndarray]]:
        return self.worker.values(plan)

    @register(dispatch_mode=Dispatch.ALL_TO_ALL)
    def update_critic(self, plan: WorkerPlan) -> dict[str, float]:
        return self.worker.update_critic(plan)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def publish(self, version: int) -> Any:
        return self.worker.publish(version)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def connect(self, rollout_workers: tuple[Any, ...], engines_per_worker: int) -> None:
        self.worker.connect(rollout_workers, engines_per_worker)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def release(self) -> None:
        self.worker.release()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def weights(self) -> dict[str, np.ndarray] | None:
        return self.worker.weights()

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def save(self, folder: str) -> None:
        self.worker.save(folder)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def load(self, folder: str) -> None:
        self.worker.load(folder)

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def describe(self) -> dict[str, Any]:
        return self.worker.describe()
