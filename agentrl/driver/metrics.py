"""The numbers of a training step, by name. Shares and rates are 0..1, lengths in tokens or turns, times in seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from agentrl.episode.records import Trajectory, Turn


class Stopwatch:
    """Seconds per stage of one step: `with clock("rollout"): ...`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._start = time.perf_counter()

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start

    def metrics(self) -> dict[str, float]:
        stages = {f"seconds/{stage}": seconds for stage, seconds in self.seconds.items()}
        return {**stages, "seconds/step": time.perf_counter() - self._start}


def episode_metrics(trajectories: Sequence[Trajectory], prefix: str = "rollout") -> dict[str, float]:
    """Averages over trajectories (success, score, length) and over turns (rates, response length)."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    if not trajectories or not turns:
        return {}
    lengths = np.array([len(t.turns) for t in trajectories], dtype=np.float64)
    out = {
        "success": _mean(t.success for t in trajectories),
        "score": _mean(t.score for t in trajectories),
        "return": _mean(sum(turn.reward for turn in t.turns) for t in trajectories),
        "episode_length": float(lengths.mean()),
        "episode_length_max": float(lengths.max()),
        "response_length": _mean(len(turn.response_ids) for turn in turns),
        "prompt_length": _mean(len(turn.prompt_ids) for turn in turns),
        "valid_action_rate": _mean(turn.valid for turn in turns),
        "effective_action_rate": _mean(turn.effective for turn in turns),
        "response_cut_rate": _mean(turn.stop_reason == "length" for turn in turns),
        "cached_token_rate": _share(sum(turn.cached_tokens for turn in turns), sum(len(t.prompt_ids) for t in turns)),
        "log_prob": _mean_tokens(turns),
    }
    for reason in ("terminated", "max_turns", "context"):
        out[f"ended_{reason}"] = _mean(t.ended == reason for t in trajectories)
    kinds = sorted({t.task_type for t in trajectories if t.task_type})
    if len(kinds) > 1:
        for kind in kinds:
            out[f"success_{kind}"] = _mean(t.success for t in trajectories if t.task_type == kind)
    return {f"{prefix}/{name}": value for name, value in out.items()}


def token_metrics(trajectories: Sequence[Trajectory], seconds: float) -> dict[str, float]:
    """Tokens of a step and their rate over the whole rollout stage."""
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    prompt, response = sum(len(t.prompt_ids) for t in turns), sum(len(t.response_ids) for t in turns)
    return {
        "tokens/prompt": float(prompt),
        "tokens/response": float(response),
        "tokens/response_per_second": _share(response, seconds),
        "tokens/total_per_second": _share(prompt + response, seconds),
        "rollout/turns": float(len(turns)),
        "rollout/trajectories": float(len(trajectories)),
    }


def _mean(values: Iterator[float] | Iterator[bool]) -> float:
    return float(np.mean(np.fromiter(values, dtype=np.float64)))


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0


def _mean_tokens(turns: Sequence[Turn]) -> float:
    tokens = [p for turn in turns for p in turn.log_probs]
    return float(np.mean(tokens)) if tokens else 0.0


def signal_metrics(signal: dict[str, Any]) -> dict[str, float | list[float]]:
    """What the advantage stage saw (`agentrl.advantage.stats`), under `advantage/`."""
    return {f"advantage/{name.removeprefix('advantage_')}": value for name, value in signal.items()}
