"""The policy that agentrl carries: a tiny Qwen2 model that has learned to read WebShop pages from a clumsy shopper.

Three stages of supervised fine-tuning on demonstrations made as they are needed (`demonstrations`), train goals only.
"read" and "read more": good answers in the states that a wandering shopper comes to; the model learns to copy ids, to
match attributes and to choose options. "imitate": the answers of a shopper with many slips; the model keeps what it can
read and takes over the slips, which leaves reinforcement learning something to repair.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from agentrl.coldstart.demonstrations import Slips, demonstrate
from agentrl.coldstart.play import play
from agentrl.coldstart.sft import Example, SftSettings, encode, train
from agentrl.coldstart.tokenizer import build_tokenizer
from agentrl.episode.prompt import WindowRenderer

OPTIONS = {"catalogue": "mini", "observation_mode": "compact", "results_per_page": 5}
LEVELS = ("easy", "medium")
HISTORY = 2
THOUGHTS = [
    "search",
    "match",
    "next",
    "back",
    "look",
    "buy",
    "color",
    "size",
    "shoe",
    "bed",
    "length",
    "pack",
    "flavor",
    "scent",
    "storage",
    "weight",
    "material",
]
WANDER = Slips(poor_query=0.4, wrong_item=0.4, keep=0.3, buy_early=0.1, wrong_option=0.3, dawdle=0.12, malformed=0.03)
CLUMSY = Slips(
    poor_query=0.3, wrong_item=0.4, keep=0.5, buy_early=0.3, wrong_option=0.3, dawdle=0.12, malformed=0.05
).scaled(0.6)
CAREFUL = Slips()


@dataclass(frozen=True)
class Stage:
    name: str
    written: Slips
    played: Slips | None  # None: what is written is played
    sft: SftSettings
    share: dict[str, float] = field(default_factory=dict)  # of the records whose answer begins so, what is kept
    stop: int | None = None  # ends here, in the midst of its schedule


# what is soon learned is shown less often
HARD_FIRST = {"<think>search": 0.4, "<think>buy": 0.5, "<think>back": 0.6}

READ = Stage("read", CAREFUL, WANDER, SftSettings(steps=2400, learning_rate=2e-3), stop=1500)
READ_MORE = Stage(
    "read more",
    CAREFUL,
    WANDER,
    SftSettings(steps=1400, learning_rate=1.6e-3, warmup_steps=30, seed=2),
    share=HARD_FIRST,
    stop=600,
)
IMITATE = Stage("imitate", CLUMSY, None, SftSettings(steps=160, learning_rate=4e-4, warmup_steps=30, seed=1))


@dataclass
class Shop:
    """The environment, its renderer for the tokenizer at hand and its tasks."""

    plugin: Any
    renderer: WindowRenderer
    pool: list[Any] = field(default_factory=list)  # environments kept for evaluation

    def make(self) -> Any:
        return self.plugin.make(**OPTIONS)

    def tasks(self, split: str, level: str) -> list[str]:
        return list(self.plugin.tasks(split, **OPTIONS, difficulty=level).ids)


def tiny_tokenizer(env: Any, prompts: dict[str, str], tasks: list[str]) -> Any:
    """Built from the pages of the whole catalogue and the wording of the train tasks."""
    texts = [env.reset(options={"task_id": task})[1]["task"] for task in tasks]
    for asin, product in env.catalogue.products.items():
        texts.append(f"{product['Title']} {product['Price']} [{asin}]\n".lower())
        for group, values in product["options"].items():
            texts.append(f"{group} : {' '.join(f'[{value}]' for value in values)} chosen {values[0]}\n".lower())
        texts.append(" ".join([product["Description"], *product["BulletPoints"]]).lower())
    texts += [
        "[buy now] [< prev] [next >] [description] [features] [reviews] [back to search]\nresults page 1\nsearch page"
    ]
    texts += [*THOUGHTS, "user\nassistant\ntask: done: none\npage: "]
    # every word as it stands at the start of an argument and as it stands within a text
    words = sorted(set(re.findall(r"\b[a-z]+\b", " ".join(text for text in texts)))) + [
        str(number) for number in range(151)
    ]
    always = [asin.lower() for asin in env.catalogue.products]
    always += [form for word in words for form in (word, f" {word}")] + [f" ${number}" for number in range(151)]
    always += [f"{space}{verb}[" for space in ("", " ") for verb in ("search", "click")]
    return build_tokenizer(texts * 2 + list(prompts.values()), always=always, size=4096, merges=200)


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


def examples(shop: Shop, stage: Stage, seed: int) -> Iterator[Example]:
    """Fresh demonstrations of the train tasks, without end."""
    rng = random.Random(seed)
    env = shop.make()
    tasks = [task for level in LEVELS for task in shop.tasks("train", level)]
    while True:
        records, _ = demonstrate(
            env, shop.renderer, rng.choice(tasks), rng, stage.written, stage.played or stage.written
        )
        kept = [
            record for record in records if rng.random() < stage.share.get(record.response.split("</think>")[0], 1.0)
        ]
        yield from encode(kept, shop.renderer.tokenizer)


def measure(
    model: Any, shop: Shop, *, split: str = "validation", level: str = "easy", goals: int = 100, temperature: float = 1.0,
    seed: int = 0,
) -> dict[str, float]:  # fmt: skip
    """Success, score, share of valid turns and turns per episode on the first goals of a split."""
    tasks = shop.tasks(split, level)[:goals]
    played = play(model, shop.renderer, shop.make, tasks, temperature=temperature, seed=seed, environments=shop.pool)
    turns = [turn for episode in played for turn in episode.turns]
    return {
        "success": sum(episode.success for episode in played) / len(played),
        "score": sum(episode.score for episode in played) / len(played),
        "valid": sum(turn[3] for turn in turns) / len(turns),
        "turns": len(turns) / len(played),
    }


def open_shop(tokenizer: Any = None) -> Shop:
    """The WebShop environment with the tiny policy's tokenizer (a new one unless given)."""
    from agentrl.environments.registry import load_environment

    plugin = load_environment("webshop")
    if tokenizer is None:
        env = plugin.make(**OPTIONS)
        train_tasks = [task for level in LEVELS for task in plugin.tasks("train", **OPTIONS, difficulty=level).ids]
        tokenizer = tiny_tokenizer(env, dict(plugin.prompts), train_tasks)
    renderer = WindowRenderer(tokenizer, plugin.prompts, "compact", history_length=HISTORY, max_prompt_tokens=960)
    return Shop(plugin, renderer)


def save(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write the model and its tokenizer in Hugging Face's format."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder, save_jinja_files=False)  # the chat template goes into tokenizer_config.json


def make_tiny_policy(
    folder: Path, stages: tuple[Stage, ...] = (READ, READ_MORE, IMITATE), *, seed: int = 0, shrink: float = 1.0,
    check_every: int = 200, say: Callable[[str], None] = print,
) -> Any:  # fmt: skip
    """Train the policy and write it to `folder`. Returns the model. `shrink` < 1 takes fewer steps, for a trial."""
    shop = open_shop()
    tokenizer = shop.renderer.tokenizer
    model = new_model(tokenizer, seed)
    say(f"{sum(p.numel() for p in model.parameters())} parameters, {len(tokenizer)} tokens")
    for stage in stages:
        stop = None if stage.stop is None else max(1, round(stage.stop * shrink))
        sft = replace(stage.sft, steps=max(1, round(stage.sft.steps * shrink)))
        run_stage(model, shop, replace(stage, sft=sft, stop=stop), seed=seed, check_every=check_every, say=say)
    save(model, tokenizer, folder)
    return model


def run_stage(
    model: Any, shop: Shop, stage: Stage, *, seed: int, check_every: int, say: Callable[[str], None],
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
        found = [measure(model, shop, temperature=temperature) for temperature in (1.0, 0.0)]
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

    source = examples(shop, stage, seed + stage.sft.seed)
    train(model, source, stage.sft, pad_id=shop.renderer.tokenizer.pad_token_id, on_step=on_step)
