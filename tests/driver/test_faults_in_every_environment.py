"""The whole training job on every environment, with its servers killed and hung, the job killed, and then resumed.

Nothing that happens to it may show: what it ends with equals, to the bit, a run that was left alone.
"""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest
from running import Running
from test_resume import numbers

pytestmark = pytest.mark.engine

# as many steps as leave time to strike twice, however fast they are
STEPS, GROUPS, SIZE = 8, 2, 4
WORDS = [
    "scale=cpu",
    "seed=5",
    "rollout.deterministic=true",
    f"trainer.total_training_steps={STEPS}",
    f"trainer.groups_per_step={GROUPS}",
    f"trainer.group_size={SIZE}",
    "trainer.checkpoint_every=1",
    "environment.max_turns=10",
    "environment.step_timeout_s=5",
    "evaluation.tasks=4",
    "evaluation.every=0",
]
# numbers of what was suffered, not of what was learned
SUFFERED = ("count/total_", "retried")


def learned(run: Running) -> list[dict[str, object]]:
    return [{k: v for k, v in numbers(step).items() if not any(s in k for s in SUFFERED)} for step in run.steps()]


def strike(run: Running, name: str, number: signal.Signals) -> None:
    victims = run.wait_for(lambda: run.children(name), name)
    psutil.Process(victims[0].pid).send_signal(number)


def after_step(run: Running, step: int) -> None:
    run.wait_for(lambda: len(run.steps()) >= step, f"training step {step}")


def total(run: Running, name: str) -> float:
    return sum(step[f"environment/{name}"] for step in run.steps())


@pytest.mark.parametrize(
    "environment",
    ["sokoban", pytest.param("alfworld", marks=pytest.mark.slow), pytest.param("scienceworld", marks=pytest.mark.slow)],
)
def test_killed_hung_and_resumed_it_learns_the_same(environment: str, tmp_path: Path) -> None:
    words = [f"+recipe=ptgpo_{environment}", *WORDS]
    whole = Running([*words, f"trainer.run_dir={tmp_path / 'whole'}"], tmp_path / "whole")
    whole_summary = whole.finish()

    part = tmp_path / "part"
    first = Running([*words, f"trainer.run_dir={part}"], part)
    try:
        after_step(first, 1)
        strike(first, "EnvironmentHost", signal.SIGKILL)
        # between two rollouts or within one: it is seen when it is next asked for something
        first.wait_for(lambda: total(first, "deaths"), "death of an environment server")
        assert total(first, "deaths") == total(first, "restarts") == 1
    finally:
        first.kill()

    second = Running([f"resume={part}"], part)
    try:
        second.wait_for(lambda: second.children("EnvironmentHost"), "environment server")
        before = len(second.steps())
        after_step(second, before + 1)
        if environment == "scienceworld":
            strike(second, "py4j.GatewayServer", signal.SIGKILL)
        else:
            strike(second, "EnvironmentHost", signal.SIGSTOP)
        summary = second.finish()
    finally:
        if second.process.poll() is None:
            second.kill()

    # without its Java, a server raises, and starts another
    name = "errors" if environment == "scienceworld" else "hangs"
    assert total(second, name) >= 1 and summary["retried_trajectories"] > 0
    assert learned(second) == learned(whole) and len(learned(whole)) == STEPS
    assert [summary[k] for k in ("success_before", "success_after")] == [
        whole_summary[k] for k in ("success_before", "success_after")
    ]
    weights = Path(f"checkpoints/step_{STEPS}/actor/huggingface/model.safetensors")
    rollouts = [Path(f"rollouts/step_{step:05d}.json.gz") for step in range(1, STEPS + 1)]
    for same in (weights, *rollouts):
        assert (tmp_path / "whole" / same).read_bytes() == (part / same).read_bytes(), same
    assert sum(step["actor/grad_norm"] for step in whole.steps()) > 0
