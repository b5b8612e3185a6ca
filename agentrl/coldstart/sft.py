"""Supervised fine-tuning on demonstrations: records of (messages, response) in, a trained causal model out.

The loss is the mean negative log-likelihood of the response tokens,

    L = - sum_i sum_t log p(y_it | x_i, y_i,<t) / sum_i |y_i|,

over a batch of examples i with prompt x_i and response y_i (its end token included). Prompt tokens carry no loss.
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional


@dataclass(frozen=True)
class Record:
    """One demonstration: the messages of the prompt and the response that the assistant should give."""

    messages: list[dict[str, str]]
    response: str


@dataclass(frozen=True)
class Example:
    """A record in tokens; the response ends with the end-of-sequence token."""

    prompt_ids: list[int]
    response_ids: list[int]

    def __len__(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True)
class SftSettings:
    """`learning_rate` rises over `warmup_steps`, then falls by a cosine to `final_fraction` of itself at `steps`."""

    steps: int = 1000
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup_steps: int = 50
    final_fraction: float = 0.1
    weight_decay: float = 0.01
    betas: tuple[float, float] = (0.9, 0.98)
    grad_clip: float = 1.0
    max_tokens: int | None = None  # of an example; longer ones are refused
    seed: int = 0


def read_records(path: Path) -> list[Record]:
    """Records from a JSONL file. Raises ValueError naming the line that is not {"messages": [...], "response": "..."}."""
    records = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            value = json.loads(line)
            messages = [{"role": _text(m["role"]), "content": _text(m["content"])} for m in value["messages"]]
            records.append(Record(messages, _text(value["response"])))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(
                f'{path} line {number} is no demonstration ({error!r}); write {{"messages": [{{"role": "user", '
                f'"content": "..."}}], "response": "..."}}'
            ) from error
    return records


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def encode(records: Iterable[Record], tokenizer: Any, max_tokens: int | None = None) -> list[Example]:
    """Tokenise records with the tokenizer's own chat template. Raises ValueError for one that is too long."""
    if tokenizer.eos_token_id is None:
        raise ValueError("the tokenizer has no end-of-sequence token; set tokenizer.eos_token")
    examples = []
    for record in records:
        text = tokenizer.apply_chat_template(record.messages, add_generation_prompt=True, tokenize=False)
        prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
        response = tokenizer(record.response, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        if max_tokens is not None and len(prompt) + len(response) > max_tokens:
            raise ValueError(
                f"a demonstration has {len(prompt) + len(response)} tokens, the limit max_tokens is {max_tokens}; "
                "shorten it or raise the limit"
            )
        examples.append(Example(prompt, response))
    return examples


def batches(
    examples: Sequence[Example] | Iterator[Example], batch_size: int, rng: random.Random, pool: int = 16
) -> Iterator[list[Example]]:
    """Endless batches, cut from runs of similar length, so that little is padded.

    A sequence is shuffled and gone through again and again; an iterator is asked for fresh examples all the time.
    """
    for run in _runs(examples, batch_size * pool, rng):
        run.sort(key=len)
        cuts = [run[i : i + batch_size] for i in range(0, len(run), batch_size)]
        rng.shuffle(cuts)
        yield from cuts


def _runs(examples: Sequence[Example] | Iterator[Example], size: int, rng: random.Random) -> Iterator[list[Example]]:
    if not isinstance(examples, Sequence):
        while run := list(islice(examples, size)):
            yield run
        return
    if not examples:
        raise ValueError("there are no demonstrations to train on; give at least one record")
    order = list(range(len(examples)))
    while True:
        rng.shuffle(order)
        for start in range(0, len(order), size):
            yield [examples[i] for i in order[start : start + size]]


def response_loss(model: Any, batch: Sequence[Example], pad_id: int) -> tuple[torch.Tensor, int]:
    """Mean negative log-likelihood of the batch's response tokens, and their number.

    Rows are padded on the right, where a causal model never looks from a real token: no attention mask is needed. Only
    the positions that predict a response token reach the output layer.
    """
    width = max(len(example) for example in batch)
    device = next(model.parameters()).device
    ids = torch.full((len(batch), width), pad_id, dtype=torch.long)
    rows: list[int] = []
    columns: list[int] = []
    targets: list[int] = []
    for row, example in enumerate(batch):
        ids[row, : len(example)] = torch.tensor(example.prompt_ids + example.response_ids)
        first = len(example.prompt_ids) - 1
        rows += [row] * len(example.response_ids)
        columns += range(first, first + len(example.response_ids))
        targets += example.response_ids
    hidden = model.model(input_ids=ids.to(device), use_cache=False).last_hidden_state
    logits = model.lm_head(hidden[rows, columns])
    return functional.cross_entropy(logits.float(), torch.tensor(targets, device=device)), len(targets)


def rate(step: int, settings: SftSettings) -> float:
    """The factor on the learning rate at `step` (from 0)."""
    if step < settings.warmup_steps:
        return (step + 1) / settings.warmup_steps
    done = (step - settings.warmup_steps) / max(1, settings.steps - settings.warmup_steps)
    low = settings.final_fraction
    return low + (1 - low) * 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def train(
    model: Any,
    examples: Sequence[Example] | Iterator[Example],
    settings: SftSettings,
    *,
    pad_id: int,
    on_step: Callable[[int, float, float], bool | None] | None = None,
) -> list[float]:
    """Train `model` in place for `settings.steps` steps; returns the loss of each.

    `on_step(step, loss, seconds)` is called after every step; the training stops early when it returns True.
    """
    decay = [p for p in model.parameters() if p.requires_grad and p.dim() > 1]
    plain = [p for p in model.parameters() if p.requires_grad and p.dim() <= 1]
    groups = [{"params": decay, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate(step, settings))
    stream = batches(examples, settings.batch_size, random.Random(settings.seed))
    losses: list[float] = []
    start = time.monotonic()
    model.train()
    for step in range(settings.steps):
        loss, _ = response_loss(model, next(stream), pad_id)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(float(loss.detach()))
        if on_step is not None and on_step(step + 1, losses[-1], time.monotonic() - start):
            break
    model.eval()
    return losses
