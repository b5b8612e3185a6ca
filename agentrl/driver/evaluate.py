"""Evaluation: one pass over fixed held-out tasks, always with the same seeds, so that two policies can be compared."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from agentrl.driver.episodes import EpisodeFactory
from agentrl.driver.metrics import episode_metrics
from agentrl.environments.pool import TrajectoryLost
from agentrl.episode.records import Trajectory
from agentrl.episode.transcript import write_transcript

EVALUATION_STEP = -1  # seeds of evaluation do not depend on the training step


@dataclass
class Evaluation:
    trajectories: list[Trajectory]
    lost: int
    metrics: dict[str, float]

    @property
    def success(self) -> float:
        return self.metrics.get("evaluation/success", 0.0)


async def evaluate(episodes: EpisodeFactory, tasks: list[str], temperature: float) -> Evaluation:
    """One episode per task. A lost episode is counted and left out of the averages, never a failure of the policy."""
    results = await asyncio.gather(
        *(episodes.run(task, 0, EVALUATION_STEP, temperature=temperature) for task in tasks), return_exceptions=True
    )
    trajectories: list[Trajectory] = []
    lost = 0
    for task, result in zip(tasks, results, strict=True):
        if isinstance(result, TrajectoryLost):
            lost += 1
            if lost == 1:  # one reason is worth reading; the number is in the metrics
                print(f"warning: task {task} of the evaluation is lost: {result.reason}", flush=True)
        elif isinstance(result, BaseException):
            raise result
        else:
            trajectories.append(result)
    metrics = episode_metrics(trajectories, "evaluation")
    metrics["evaluation/lost"] = float(lost)
    return Evaluation(trajectories, lost, metrics)


def write_transcripts(folder: Path, step: int, evaluation: Evaluation, count: int) -> None:
    """The first `count` evaluation episodes as readable text, in `episodes/step_N/`."""
    for trajectory in evaluation.trajectories[:count]:
        write_transcript(trajectory, folder / f"step_{step}")
