"""New weights in a running vLLM engine: its greedy tokens and log-probs are transformers', tied heads included."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from agentrl.engine.rollout_spec import RolloutSpec
from agentrl.engine.router import RolloutRouter
from agentrl.engine.weights_shm import PREFIX, SharedMemoryPublisher, folder

pytestmark = pytest.mark.engine
ROOT = Path(__file__).resolve().parents[2]
PROMPTS = [[(7 * row + 3 * column) % 250 + 3 for column in range(40 + row)] for row in range(6)]
NEW_TOKENS = 16


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    import ray

    paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    ray.init(
        address="local", num_cpus=2, include_dashboard=False, object_store_memory=100 << 20, logging_level="ERROR",
        namespace=f"test-rollout-{os.getpid()}", log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}},
    )  # fmt: skip
    yield
    ray.shutdown()


def with_router(model: str, body: Callable[[RolloutRouter], Awaitable[None]], **changes: Any) -> None:
    async def main() -> None:
        spec = RolloutSpec(model_path=model, max_model_len=128, max_num_seqs=16, **changes)
        router = RolloutRouter(spec, 1, timeout_s=120.0)
        await router.start()
        try:
            await body(router)
        finally:
            await router.close()

    asyncio.run(main())


async def answers(router: RolloutRouter, temperature: float = 0.0, seed: int = 0) -> list[Any]:
    return await asyncio.gather(
        *(
            router.generate(
                prompt, trajectory_key=("t", row), max_tokens=NEW_TOKENS, temperature=temperature, seed=seed + row
            )
            for row, prompt in enumerate(PROMPTS)
        )
    )


def kill_rollout_workers() -> None:
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "RolloutWorker" in " ".join(process.cmdline()):
                process.send_signal(signal.SIGKILL)


def agree(model: Any, generations: list[Any], greedy: bool) -> None:
    """Log-probs within 1e-4 of transformers', and, if greedy, the very tokens it would take."""
    import torch

    for prompt, made in zip(PROMPTS, generations, strict=True):
        ids = torch.tensor([prompt + list(made.token_ids)])
        with torch.no_grad():
            log_probs = model(ids).logits[0, len(prompt) - 1 : -1].log_softmax(-1)
        taken = log_probs.gather(1, torch.tensor(made.token_ids)[:, None])[:, 0]
        # at temperature 0 an engine reports log-probs of a distribution that has one token; they say nothing
        if greedy:
            assert log_probs.argmax(-1).tolist() == list(made.token_ids)
        else:
            assert (taken - torch.tensor(made.log_probs)).abs().max() < 1e-4


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_weights_arrive(cluster: None, tmp_path: Path, tied: bool) -> None:
    from tiny import tiny_model
    from transformers import AutoModelForCausalLM

    old_path, new_path = (tiny_model(tmp_path / name, tied=tied, seed=seed) for name, seed in (("old", 0), ("new", 1)))
    old, new = (AutoModelForCausalLM.from_pretrained(path).float() for path in (old_path, new_path))

    published: list[str] = []

    async def body(router: RolloutRouter) -> None:
        agree(old, await answers(router), greedy=True)
        agree(old, await answers(router, temperature=1.0), greedy=False)
        publisher = SharedMemoryPublisher()
        try:
            descriptor = publisher.publish(1, new.state_dict().items())
            assert descriptor is not None
            published.extend(Path(str(v)).name for v in descriptor.update.values() if PREFIX in str(v))
            await router.update_weights(1, descriptor)
            # the same prompts again: a prefix cache that was kept would answer for the old weights
            changed = await answers(router)
            agree(new, changed, greedy=True)
            sampled = await answers(router, temperature=1.0, seed=5)
            agree(new, sampled, greedy=False)
            assert {made.policy_version for made in changed} == {1}
            again = await answers(router, temperature=1.0, seed=5)
            assert [made.token_ids for made in again] == [made.token_ids for made in sampled]
            if not tied:  # deterministic: a request's answer depends on no other, and on no cached prefix, to the bit
                alone = []
                for row, prompt in enumerate(PROMPTS):
                    await router.reset_prefix_cache()
                    alone.append(await router.generate(prompt, trajectory_key=row, max_tokens=NEW_TOKENS, seed=5 + row))
                assert [made.token_ids for made in alone] == [made.token_ids for made in sampled]
                assert [made.log_probs for made in alone] == [made.log_probs for made in sampled]
        finally:
            publisher.close()

    with_router(old_path, body, deterministic=not tied)
    assert published and not [name for name in published if (folder() / name).exists()]


@pytest.mark.slow  # `make test` kills a worker too, in a whole run (tests/driver), and looks at the log-probs after it
def test_the_successor_of_a_killed_worker_has_the_current_weights(cluster: None, tmp_path: Path) -> None:
    from tiny import tiny_model
    from transformers import AutoModelForCausalLM

    old_path, new_path = (tiny_model(tmp_path / name, tied=True, seed=seed) for name, seed in (("old", 0), ("new", 1)))
    new = AutoModelForCausalLM.from_pretrained(new_path).float()

    async def body(router: RolloutRouter) -> None:
        publisher = SharedMemoryPublisher()
        try:
            descriptor = publisher.publish(1, new.state_dict().items())
            assert descriptor is not None
            await router.update_weights(1, descriptor)
            kill_rollout_workers()
            agree(new, await answers(router), greedy=True)
            assert router.counters["restarts"] == 1 and router.counters["retries"] >= 1
        finally:
            publisher.close()

    with_router(old_path, body)
