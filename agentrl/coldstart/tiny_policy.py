"""The policies that agentrl carries: tiny Qwen2 models that have learned to read an environment from a clumsy player."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from agentrl.coldstart.play import play
from agentrl.coldstart.sft import Example, encode, train
from agentrl.coldstart.world import Stage, World, demonstrate


def new_model(tokenizer: Any, seed: int = 0) -> Any:
    """A Qwen2 model of 1.2 M parameters.

    Weights start with a standard deviation of 0.08: with the usual 0.02 a model of this size takes thousands of steps
    to begin to copy. Forms of one word ("red", " red", "$40" and "40") start from nearly the same embedding, so that
    matching the task with the page need not be learned word by word.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    spread = 0.08
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=344,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=spread,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype="float32",
    )
    model = Qwen2ForCausalLM(config).float()
    table = model.model.embed_tokens.weight.data
    spaced, dollars = torch.randn(2, config.hidden_size) * spread
    first: dict[str, torch.Tensor] = {}
    for token, index in tokenizer.get_vocab().items():
        word = token.lstrip(" \u0120")  # a space, as it is or as the byte-level sign
        plain = word.removeprefix("$")
        if plain:
            common = first.setdefault(plain, table[index].clone())
            table[index] = (
                0.9 * common + 0.2 * table[index] + 0.4 * spaced * (word != token) + 0.4 * dollars * (plain != word)
            )
    return model


def examples(world: World, stage: Stage, seed: int) -> Iterator[Example]:
    """Demonstrations of the train tasks, without end: fresh ones, or those of `stage.episodes` again and again."""
    rng = random.Random(seed)
    env = world.make()
    tasks = world.train_tasks()
    played = stage.written if stage.played is None else stage.played
    made: list[list[Example]] = []
    while stage.episodes is None or len(made) < stage.episodes:
        records, _ = demonstrate(world, env, rng.choice(tasks), rng, stage.written, played)
        kept = [
            record for record in records if rng.random() < stage.share.get(record.response.split("</think>")[0], 1.0)
        ]
        episode = list(encode(kept, world.renderer.tokenizer))
        if stage.episodes is not None:
            made.append(episode)
        yield from episode
    env.close()
    turns = [example for episode in made for example in episode]
    while True:
        yield rng.choice(turns)


def measure(
    model: Any, world: World, *, split: str = "validation", goals: int = 100, temperature: float = 1.0, seed: int = 0,
) -> dict[str, float]:  # fmt: skip
    """Success, score, share of valid turns and turns per episode on the first goals of a split."""
    tasks = world.tasks(split)[:goals]
    played = play(
        model,
        world.renderer,
        world.make,
        tasks,
        temperature=temperature,
        max_turns=world.max_turns,
        seed=seed,
        environments=world.pool,
    )
    turns = [turn for episode in played for turn in episode.turns]
    return {
        "success": sum(episode.success for episode in played) / len(played),
        "score": sum(episode.score for episode in played) / len(played),
        "valid": sum(turn[3] for turn in turns) / len(turns),
        "turns": len(turns) / len(played),
    }


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the model and its tokenizer in Hugging Face's format."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder, save_jinja_files=False)  # the chat template goes into tokenizer_config.json


def make_tiny_policy(
    world: World, folder: Path, stages: tuple[Stage, ...] | None = None, *, seed: int = 0, shrink: float = 1.0,
    check_every: int = 200, say: Callable[[str], None] = print,
) -> Any:  # fmt: skip
    """Train the policy and write it to `folder`. Returns the model. `shrink` < 1 takes fewer steps, for a trial."""
    tokenizer = world.renderer.tokenizer
    model = new_model(tokenizer, seed)
    say(f"{sum(p.numel() for p in model.parameters())} parameters, {len(tokenizer)} tokens")
    for stage in world.stages if stages is None else stages:
        stop = None if stage.stop is None else max(1, round(stage.stop * shrink))
        sft = replace(stage.sft, steps=max(1, round(stage.sft.steps * shrink)))
        run_stage(model, world, replace(stage, sft=sft, stop=stop), seed=seed, check_every=check_every, say=say)
    save(model, tokenizer, folder)
    return model


def run_stage(
    model: Any, world: World, stage: Stage, *, seed: int, check_every: int, say: Callable[[str], None],
    after_check: Callable[[int], None] | None = None,
) -> None:  # fmt: skip
    """Train `model` in place for one stage, with its success on held-out goals every `check_every` steps."""
    recent: list[float] = []
    last = stage.stop or stage.sft.steps

    def on_step(step: int, loss: float, seconds: float) -> bool:
        recent.append(loss)
        if step % check_every and step != last:
            return False
        model.eval()
        found = [measure(model, world, temperature=temperature) for temperature in (1.0, 0.0)]
        model.train()
        words = ", ".join(
            f"T={t:g} success {m['success']:.2f} valid {m['valid']:.2f} turns {m['turns']:.1f}"
            for t, m in zip((1, 0), found, strict=True)
        )
        say(f"{stage.name} {step}/{last} {seconds:.0f} s loss {sum(recent) / len(recent):.4f}; {words}")
        recent.clear()
        if after_check is not None:
            after_check(step)
        return step >= last

    source = examples(world, stage, seed + stage.sft.seed)
    train(model, source, stage.sft, pad_id=world.renderer.tokenizer.pad_token_id, on_step=on_step)
