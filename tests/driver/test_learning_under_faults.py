"""One real run: its reward goes up, although an environment server and the rollout worker are killed on the way."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import psutil
import pytest
from running import Running

pytestmark = pytest.mark.engine

STEPS, GROUPS = 7, 8
WORDS = [
    "+recipe=ptgpo_webshop",
    "scale=cpu",
    "seed=1",
    f"trainer.total_training_steps={STEPS}",
    f"trainer.groups_per_step={GROUPS}",
    "evaluation.tasks=64",
    "evaluation.every=0",
]


def kill_one(run: Running, name: str) -> None:
    victims = run.wait_for(lambda: run.children(name), name)
    psutil.Process(victims[0].pid).send_signal(signal.SIGKILL)


def test_learns_and_accounts_for_every_loss(tmp_path: Path) -> None:
    run = Running([*WORDS, f"trainer.run_dir={tmp_path / 'run'}"], tmp_path / "run")
    try:
        run.wait_for(run.steps, "first training step")
        time.sleep(1.0)  # into the rollout of the second
        kill_one(run, "EnvironmentHost")
        run.wait_for(lambda: len(run.steps()) >= 2, "second training step")
        time.sleep(1.0)
        kill_one(run, "RolloutWorker")
        summary = run.finish()
    finally:
        if run.process.poll() is None:
            run.kill()

    steps = run.steps()
    assert [step["step"] for step in steps] == list(range(1, STEPS + 1))
    # nothing is missing: every step has all its rows, or says what was dropped
    for step in steps:
        lost = step["count/dropped_trajectories"]
        assert step["rollout/trajectories"] == GROUPS * 8
        assert lost == 0 or step["count/dropped_groups"] > 0
        assert step["advantage/rows"] == step["actor/rows"] == step["rollout/turns"]
    last = steps[-1]
    assert last["environment/deaths"] >= 1 and last["environment/restarts"] >= 1
    assert summary["retried_trajectories"] == last["count/total_retried_trajectories"]
    assert summary["dropped_trajectories"] == sum(step["count/dropped_trajectories"] for step in steps)
    assert last["router/restarts"] == 1 and last["router/retries"] >= 1

    first_reward = sum(step["rollout/return"] for step in steps[:2]) / 2
    last_reward = sum(step["rollout/return"] for step in steps[-2:]) / 2
    assert last_reward > first_reward, [round(step["rollout/return"], 2) for step in steps]
    assert summary["success_after"] > summary["success_before"]
    assert max(step["actor/log_prob_gap_max"] for step in steps) < 1e-2
    assert (tmp_path / "run" / "learning_curve.png").stat().st_size > 1000
    assert list((tmp_path / "run" / "episodes").rglob("*.txt"))
