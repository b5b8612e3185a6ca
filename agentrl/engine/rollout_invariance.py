"""Does an answer depend on what else is in the batch or in the prefix cache? Tried, not believed.

vLLM's CPU kernels were bit for bit independent of both on the processors that were tried, but matrix libraries choose
kernels by processor and size, so a run that needs it asks the engine at hand.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

LENGTHS = (1, 2, 5, 8, 15, 16, 17, 31, 40, 64, 97, 128, 200)  # of prompts, in tokens
TOKENS = 6


async def answers_stand_alone(
    generate: Callable[[Any], Awaitable[Any]], forget: Callable[[], Awaitable[None]], max_length: int, vocabulary: int
) -> bool:
    """True when each prompt gets the same tokens and log-probs alone, in a batch, and with its prefix cached.

    generate: takes a `Request`. forget: empties the prefix cache. Takes about as long as prefilling 2,000 tokens.
    """
    from agentrl.engine.rollout_worker import Request

    source = random.Random(0)
    stem = [source.randrange(vocabulary) for _ in range(max(LENGTHS))]
    lengths = [n for n in LENGTHS if n + TOKENS <= max_length]
    # half of each prompt is common to all, so that there is something to find in the cache
    prompts = [stem[: n // 2] + [source.randrange(vocabulary) for _ in range(n - n // 2)] for n in lengths]

    async def ask(tag: str, index: int) -> Any:
        made = await generate(Request(f"check-{tag}-{index}", prompts[index], TOKENS, 1.0, 1.0, index))
        return made.token_ids, made.log_probs

    everyone = range(len(prompts))
    alone = []
    for index in everyone:
        await forget()
        alone.append(await ask("alone", index))
    await forget()
    together = await asyncio.gather(*(ask("together", index) for index in everyone))
    again = await asyncio.gather(*(ask("again", index) for index in reversed(everyone)))
    await forget()
    return alone == list(together) and alone == list(reversed(again))
