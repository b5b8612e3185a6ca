"""Stop, resume, and compare with a run that was never stopped: bit for bit. PPO, because its critic is saved as well."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from running import Running

pytestmark = pytest.mark.engine

WORDS = [
    "+recipe=ppo_webshop",
    "scale=cpu",
    "seed=3",
    "rollout.deterministic=true",
    "trainer.total_training_steps=3",
    "trainer.groups_per_step=2",
    "trainer.group_size=4",
    "actor.lr_schedule=cosine",
    "environment.max_turns=6",
    "evaluation.tasks=2",
    "evaluation.every=0",
]
# what depends on the clock or on the machine, not on the run
NOT_COMPARED = ("seconds", "per_second", "memory/", "time/", "environment/", "router/")


def numbers(step: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in step.items() if not any(part in name for part in NOT_COMPARED)}


def test_a_resumed_run_equals_one_that_ran_through(tmp_path: Path) -> None:
    whole = Running([*WORDS, f"trainer.run_dir={tmp_path / 'whole'}"], tmp_path / "whole")
    whole_summary = whole.finish()

    stopped = Running([*WORDS, f"trainer.run_dir={tmp_path / 'part'}"], tmp_path / "part")
    stopped.wait_for(stopped.steps, "first training step")
    stopped.signal(signal.SIGTERM)
    partial = stopped.finish()
    assert partial["stopped_by"] == "SIGTERM" and 1 <= partial["steps"] < 3
    assert f"-m agentrl.main resume={tmp_path / 'part'}" in stopped.said()

    resumed = Running([f"resume={tmp_path / 'part'}"], tmp_path / "part")
    summary = resumed.finish()
    assert summary["resumed_from"] == partial["steps"] and summary["steps"] == 3

    assert [numbers(step) for step in resumed.steps()] == [numbers(step) for step in whole.steps()]
    assert summary["success_before"] == whole_summary["success_before"]
    assert summary["success_after"] == whole_summary["success_after"]
    weights = Path("checkpoints/step_3/actor/huggingface/model.safetensors")
    critic = Path("checkpoints/step_3/actor/critic/huggingface/model.safetensors")
    rollouts = [Path(f"rollouts/step_{step:05d}.json.gz") for step in (1, 2, 3)]
    for same in (weights, critic, *rollouts):
        assert (tmp_path / "whole" / same).read_bytes() == (tmp_path / "part" / same).read_bytes(), same
    assert sum(step["actor/grad_norm"] for step in whole.steps()) > 0  # or the comparison would say nothing

    loads_in_transformers(tmp_path / "part" / weights.parent)


def loads_in_transformers(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "task"}], return_tensors="pt", return_dict=False)
    assert AutoModelForCausalLM.from_pretrained(folder)(ids).logits.isfinite().all()
