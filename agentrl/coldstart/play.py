"""Playing many episodes of one environment side by side with a small transformers model, in one process.

Training runs roll out through vLLM; this plain loop serves the cold start, which must measure a checkpoint every few
minutes without an engine. Prompts and parsing are those of `agentrl.episode`, so a result here is a result there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from agentrl.episode.parse import ActionParser
from agentrl.episode.prompt import WindowRenderer
from agentrl.episode.seeds import derive


@dataclass
class Played:
    """One episode: its turns as (prompt ids, response ids, action, valid, state key) and how it ended."""

    task_id: str
    turns: list[tuple[list[int], list[int], str, bool, str]] = field(default_factory=list)
    log_probs: list[list[float]] = field(default_factory=list)
    success: bool = False
    score: float = 0.0


@torch.inference_mode()
def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_tokens: int,
    temperature: float,
    end_id: int,
    pad_id: int,
    generator: torch.Generator | None = None,
) -> tuple[list[list[int]], list[list[float]]]:
    """Sample a response to every prompt (greedy at temperature 0); returns token ids and their log-probabilities.

    Responses end with `end_id` unless they reach `max_tokens`. Log-probabilities are those at `temperature` (1 at 0).
    """
    from transformers import DynamicCache

    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), pad_id, dtype=torch.long)
    mask = torch.zeros((len(prompts), width), dtype=torch.long)
    for row, prompt in enumerate(prompts):  # padded on the left, so that all rows go on at the same column
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
        mask[row, width - len(prompt) :] = 1
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    cache = DynamicCache()
    responses: list[list[int]] = [[] for _ in prompts]
    log_probs: list[list[float]] = [[] for _ in prompts]
    open_rows = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(max_tokens):
        hidden = model.model(
            input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
        ).last_hidden_state[:, -1]
        logits = model.lm_head(hidden).float()
        scaled = torch.log_softmax(logits / temperature if temperature > 0 else logits, dim=-1)
        if temperature > 0:
            chosen = torch.multinomial(scaled.exp(), 1, generator=generator).squeeze(1)
        else:
            chosen = scaled.argmax(-1)
        picked = scaled.gather(1, chosen[:, None]).squeeze(1)
        for row in open_rows.nonzero().flatten().tolist():
            responses[row].append(int(chosen[row]))
            log_probs[row].append(float(picked[row]))
        open_rows &= chosen != end_id
        if not open_rows.any():
            break
        ids = chosen[:, None]
        mask = torch.cat([mask, torch.ones((len(prompts), 1), dtype=torch.long)], dim=1)
        positions = positions[:, -1:] + 1
    return responses, log_probs


def play(
    model: Any,
    renderer: WindowRenderer,
    make: Callable[[], Any],
    tasks: Sequence[str],
    *,
    temperature: float,
    max_turns: int = 10,
    max_tokens: int = 32,
    seed: int = 0,
    environments: list[Any] | None = None,
) -> list[Played]:
    """One episode of every task in `tasks` (repeat a task for several tries); `make()` gives a fresh environment.

    `environments` keeps the environments for the next call.
    """
    tokenizer = renderer.tokenizer
    parser = ActionParser()
    environments = [] if environments is None else environments
    while len(environments) < len(tasks):
        environments.append(make())
    generator = torch.Generator().manual_seed(derive(seed, 0, "play", 0) % 2**63)
    played = [Played(task) for task in tasks]
    pages, infos, conversations = [], [], []
    for environment, task in zip(environments, tasks, strict=False):
        observation, info = environment.reset(seed=derive(seed, 0, task, 0, stream="env"), options={"task_id": task})
        pages.append(observation)
        infos.append(info)
        conversations.append(renderer.start(info["task"]))
    live = list(range(len(tasks)))
    for _ in range(max_turns):
        found = {i: conversations[i].prompt(pages[i], infos[i]["admissible_actions"]) for i in live}
        prompts = {i: prompt.ids for i, prompt in found.items() if prompt is not None}
        live = sorted(prompts, key=lambda i: len(prompts[i]))
        if not live:
            break
        responses, log_probs = generate(
            model,
            [prompts[i] for i in live],
            max_tokens=max_tokens,
            temperature=temperature,
            end_id=tokenizer.eos_token_id,
            pad_id=tokenizer.pad_token_id,
            generator=generator,
        )
        ended = set()
        for i, response, chosen in zip(live, responses, log_probs, strict=True):
            parsed = parser(renderer.decode(response))
            state, valid = infos[i]["state_key"], parsed.valid
            seen = pages[i]
            if parsed.valid:
                pages[i], _, terminated, truncated, infos[i] = environments[i].step(parsed.action)
                valid = bool(infos[i]["action_valid"])
                if terminated or truncated:
                    ended.add(i)
            played[i].turns.append((prompts[i], response, parsed.action, valid, state))
            played[i].log_probs.append(chosen)
            conversations[i].add(seen, parsed.action, response)
        live = [i for i in live if i not in ended]
    for i, episode in enumerate(played):
        episode.success, episode.score = bool(infos[i]["success"]), float(infos[i]["score"])
    return played
