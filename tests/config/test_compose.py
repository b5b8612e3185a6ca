"""Composition: what wins over what, where recipes come from, what a run remembers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agentrl.config import ConfigError, compose_config, recipe_names
from agentrl.config.resume import resolve


def test_recipe_names_the_method_and_scale_the_sizes() -> None:
    cpu = compose_config(["+recipe=gigpo_webshop", "scale=cpu"])
    gpu = compose_config(["+recipe=gigpo_webshop", "scale=gpu"])
    assert cpu.recipe == "gigpo_webshop" and cpu.advantage.name == gpu.advantage.name == "gigpo"
    assert cpu.model.path == "tiny" and gpu.actor.learning_rate == 1e-6
    assert cpu.environment.options["observation_mode"] == "compact"
    assert gpu.environment.options["observation_mode"] == "text_rich"
    assert gpu.environment.max_turns == 15 and gpu.trajectories_per_step == 128


def test_words_win_over_the_recipe() -> None:
    config = compose_config(["+recipe=ptgpo_webshop", "advantage=gigpo", "advantage.omega=0.8", "seed=3"])
    assert config.advantage.name == "gigpo" and config.advantage.model_extra["omega"] == 0.8 and config.seed == 3


def test_recipes_combine_and_come_from_the_environment_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short.yaml").write_text("# @package _global_\ntrainer: {total_training_steps: 3}\n")
    monkeypatch.setenv("AGENTRL_RECIPES", str(tmp_path))
    assert "short" in recipe_names()
    config = compose_config(["+recipe=[grpo_webshop,short]"])
    assert config.advantage.name == "grpo" and config.trainer.total_training_steps == 3
    assert config.recipe == "grpo_webshop+short"


def test_every_recipe_composes_at_both_scales() -> None:
    for name in recipe_names():
        for scale in ("cpu", "gpu"):
            assert compose_config([f"+recipe={name}", f"scale={scale}"]).recipe == name


def test_resume_brings_back_the_words(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "command.json").write_text(json.dumps({"overrides": ["+recipe=grpo_webshop", "seed=5"]}))
    config, words = resolve([f"resume={run}", "trainer.total_training_steps=7"])
    assert (config.recipe, config.seed, config.trainer.total_training_steps) == ("grpo_webshop", 5, 7)
    assert config.resume == config.trainer.run_dir == str(run)
    assert words == ["+recipe=grpo_webshop", "seed=5", "trainer.total_training_steps=7"]


def test_unreadable_command_file(tmp_path: Path) -> None:
    (tmp_path / "command.json").write_text("{")
    with pytest.raises(ConfigError, match="cannot be read"):
        resolve([f"resume={tmp_path}"])


def test_the_papers_sizes_on_webshop() -> None:
    for name in ("grpo", "rloo", "ppo", "dapo", "empg", "gigpo", "ptgpo", "planpo"):
        config = compose_config([f"+recipe={name}_webshop", "scale=gpu"])
        trainer, episode, actor = config.trainer, config.episode, config.actor
        assert config.model.path == "Qwen/Qwen2.5-1.5B-Instruct" and config.environment.max_turns == 15
        assert (trainer.groups_per_step, trainer.group_size, trainer.total_training_steps) == (16, 8, 150)
        assert (episode.max_prompt_tokens, episode.max_response_tokens, episode.history_length) == (4096, 512, 2)
        assert (actor.learning_rate, actor.mini_batches, actor.kl_coef) == (1e-6, 16, 0.0 if name == "dapo" else 0.01)
        assert (config.rollout.temperature, config.evaluation.temperature) == (1.0, 0.4)
        assert config.environment.reward.scale == 10 and config.method_settings["invalid_action_penalty"] == 0.1
        if name in ("gigpo", "ptgpo"):
            assert config.method_settings["gamma"] == 0.95
        assert config.critic.learning_rate == 1e-5 and config.has_critic == (name == "ppo")
