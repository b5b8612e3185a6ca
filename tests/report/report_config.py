"""A configuration, and the numbers of a step, as the driver hands them to the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agentrl.config import compose_config
from agentrl.config.schema import RunConfig


def config_for(run_dir: Path | None = None, *words: str) -> RunConfig:
    given = [] if run_dir is None else [f"trainer.run_dir={run_dir}"]
    return compose_config(["+recipe=ptgpo_webshop", "scale=cpu", "seed=7", *given, *words])


def step_metrics(success: float, **more: Any) -> dict[str, Any]:
    return {
        "rollout/success": success,
        "rollout/score": 0.5,
        "rollout/episode_length": 4.25,
        "rollout/valid_action_rate": 0.96,
        "advantage/zero_signal_group_share": 0.25,
        "actor/kl": 0.0012,
        "actor/entropy": 0.4,
        "actor/clip_fraction": 0.013,
        "seconds/step": 9.8,
        "time/train_seconds": 9.5,
        **more,
    }
