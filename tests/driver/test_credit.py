"""From trajectories to credit: columns of the rows, what the critic is asked, what is kept and when it cannot be."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from agentrl.advantage import StepTable, compute
from agentrl.driver.batch import state_batch, step_rows
from agentrl.driver.credit import assign, learn, rollouts
from agentrl.driver.train import keep
from agentrl.episode.records import Trajectory, Turn
from agentrl.report.rollouts import read_rollouts, write_rollouts


def groups() -> list[list[Trajectory]]:
    made = []
    for task in range(2):
        group = []
        for member in (1, 0):  # not in their order
            turns = [
                Turn([5, 6, 7 + k], [8, 9, 10][: k + 1], [-0.5] * (k + 1), observation="page", text=f"<think>{member}",
                     action="a", reward=10.0 * (member == 0 and k == 2), state_key=f"s{k}", valid=k != 1)
                for k in range(3)
            ]  # fmt: skip
            group.append(Trajectory(0, 1, f"train/{task}", member, turns=turns, success=member == 0))
        made.append(group)
    return made


def test_the_whole_text_reaches_the_methods_that_ask_for_it() -> None:
    rows = step_rows(groups())
    assert [row["raw_action"] for row in rows[:6]] == ["<think>0"] * 3 + ["<think>1"] * 3
    table = StepTable.from_rows(rows)
    parsed, raw = (compute(table, "ptgpo", episode_weight=0.0, action_key=key) for key in ("parsed", "raw"))
    assert not np.array_equal(parsed, raw)  # one action, two texts: only the texts branch


def test_a_critic_is_asked_for_the_value_of_each_prompt() -> None:
    batch = state_batch(groups(), np.arange(12.0))
    assert [len(ids) for ids in batch.response_ids] == [1] * 12 and batch.advantages is None
    assert batch.prompt_ids[2] == [5, 6, 9] and list(batch.returns) == list(range(12))
    batch.check()


def test_ppo_gets_the_values_and_gives_targets() -> None:
    values = np.linspace(0, 1, 12)
    credit = assign(groups(), "ppo", {"norm_mode": "none"}, values)
    np.testing.assert_allclose(credit.targets, credit.advantages + values)
    assert credit.signal["value_mean"] == pytest.approx(values.mean())
    assert assign(groups(), "grpo", {}, None).targets is None


class Actor:
    def __init__(self) -> None:
        self.calls: list[tuple[str, int]] = []

    def update(self, batch: Any, mini_batches: int) -> dict[str, float]:
        self.calls.append(("actor", mini_batches))
        return {"loss": 1.0}

    def update_critic(self, batch: Any, mini_batches: int) -> dict[str, float]:
        self.calls.append(("critic", mini_batches))
        return {"loss": 2.0}


@pytest.mark.parametrize(
    ("step", "called"), [(0, ["critic"] * 3), (1, ["critic"] * 3), (2, ["critic"] * 3 + ["actor"])]
)
def test_the_critic_has_its_passes_and_its_head_start(step: int, called: list[str]) -> None:
    critic = SimpleNamespace(epochs=3, mini_batches=4, head_start=2)
    config = SimpleNamespace(critic=critic, actor=SimpleNamespace(mini_batches=2))
    run: Any = SimpleNamespace(config=config, actor=Actor(), step=step)
    metrics = asyncio.run(learn(run, groups(), assign(groups(), "ppo", {}, np.zeros(12))))
    assert [name for name, _ in run.actor.calls] == called and run.actor.calls[0] == ("critic", 4)
    assert metrics["critic/loss"] == 2.0 and ("actor/loss" in metrics) == ("actor" in called)


def test_what_is_kept_can_be_replayed(tmp_path: Path) -> None:
    credit = assign(groups(), "gigpo", {"gamma": 0.5}, None)
    back = read_rollouts(write_rollouts(tmp_path, rollouts(4, "gigpo", groups(), credit)))
    again = compute(StepTable.from_columns(back.columns), back.method, **back.settings)
    assert (again == credit.advantages).all() and (back.advantages == again).all()
    assert back.trajectories == [("train/0", 0), ("train/0", 1), ("train/1", 0), ("train/1", 1)]


def test_a_full_disk_costs_the_replay_not_the_run(tmp_path: Path) -> None:
    (tmp_path / "rollouts").write_text("a file where the folder should be")
    said: list[str] = []
    run: Any = SimpleNamespace(directory=SimpleNamespace(path=tmp_path), console=SimpleNamespace(warn=said.append))
    asyncio.run(keep(run, rollouts(4, "gigpo", groups(), assign(groups(), "gigpo", {}, None))))
    assert len(said) == 1 and said[0].startswith("step 4: its rollouts could not be kept")
