"""One run from a validated configuration to its summary: build the parts, train, close everything."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig
from agentrl.driver.checkpoint import check_resume, checkpoints, load_driver_state
from agentrl.driver.cluster import connect
from agentrl.driver.collect import Collector
from agentrl.driver.episodes import EpisodeFactory
from agentrl.driver.run_state import Run
from agentrl.driver.signals import StopRequest
from agentrl.driver.specs import model_path, rollout_spec, training_spec, weight_transfer
from agentrl.driver.tasks import TaskCursor
from agentrl.driver.train import train
from agentrl.engine.router import RolloutRouter
from agentrl.engine.training_group import TrainingGroup
from agentrl.environments.pool import EnvironmentPool
from agentrl.environments.registry import load_environment
from agentrl.episode.prompt import WindowRenderer
from agentrl.report.console import Console
from agentrl.report.memory import MemorySampler
from agentrl.report.metrics_log import MetricsLog
from agentrl.report.rollouts import remove_rollouts_after
from agentrl.report.run_directory import RunDirectory
from agentrl.report.summary import failure_words, finish


@dataclass(frozen=True)
class Prepared:
    """What is known before Ray starts: the tasks, the folder, where to resume, how to stop."""

    started: float  # time.time()
    checkpoint: Path | None
    directory: RunDirectory
    console: Console
    stop: StopRequest
    fingerprint: str
    train_tasks: list[str]
    held_out: list[str]
    prompts: dict[str, str]


def run(config: RunConfig, words: list[str]) -> int:
    """Train. Returns 0 when done or stopped cleanly. Raises ConfigError for what only the cluster or data could tell."""
    started = time.time()
    checkpoint = check_resume(config) if config.resume else None
    environment = config.environment
    plugin = load_environment(environment.name)
    tasks = plugin.tasks(environment.train_split, **environment.options)
    held_out = plugin.tasks(config.evaluation.split, **environment.options)
    directory = RunDirectory.create(config, words, tasks.fingerprint)
    console, stop = Console(config, directory.path), StopRequest()
    prepared = Prepared(
        started=started,
        checkpoint=checkpoint,
        directory=directory,
        console=console,
        stop=stop,
        fingerprint=tasks.fingerprint,
        train_tasks=list(tasks.ids),
        held_out=list(held_out.ids[: config.evaluation.tasks]),
        prompts=dict(plugin.prompts),
    )
    console.start()
    connect(config)
    stop.install()
    try:
        asyncio.run(_run(config, prepared))
    except ConfigError:
        raise
    except Exception:
        saved = checkpoints(directory.path)
        console.finish(failure_words(directory.path, int(saved[-1].name.split("_")[1]) if saved else None))
        raise
    finally:
        import ray

        ray.shutdown()
    return 0


async def _run(config: RunConfig, prepared: Prepared) -> None:
    trainer = config.trainer
    memory = MemorySampler()
    async with AsyncExitStack() as stack:
        memory.start()
        stack.callback(memory.stop)
        pool = environment_pool(config)
        stack.push_async_callback(pool.close)
        router = RolloutRouter(
            rollout_spec(config), config.rollout.workers, timeout_s=config.rollout.generate_timeout_s
        )
        stack.push_async_callback(router.close)
        # The three kinds of workers start side by side: most of it is imports. Here the renderer comes before the training
        # group, because both import transformers, whose lazy modules fail now and then when two threads do so at once.
        starting = asyncio.gather(pool.start(), router.start())
        renderer = await asyncio.to_thread(prompt_renderer, config, prepared.prompts)
        actor = await asyncio.to_thread(TrainingGroup.start, training_spec(config))
        stack.callback(actor.close)
        await starting
        if weight_transfer(config) != "shm":
            await asyncio.to_thread(actor.connect_rollout, router.handles(), config.rollout.tensor_parallel_size)
            router.republish = partial(republish, actor, router, config.rollout.tensor_parallel_size)
        episodes = EpisodeFactory(config, pool, router, renderer)
        state = Run(
            config=config,
            directory=prepared.directory,
            log=MetricsLog(prepared.directory.path, config, prepared.console.warn),
            console=prepared.console,
            memory=memory,
            stop=prepared.stop,
            actor=actor,
            router=router,
            episodes=episodes,
            collector=Collector(
                episodes,
                trainer.groups_per_step,
                trainer.group_size,
                config.min_group_size,
                trainer.max_replaced_groups,
                trainer.max_resampled_groups,
            ),
            cursor=TaskCursor(prepared.train_tasks, config.seed),
            held_out=prepared.held_out,
            data_fingerprint=prepared.fingerprint,
            started=prepared.started,
        )
        stack.callback(state.log.close)
        if prepared.checkpoint is not None:
            await asyncio.to_thread(actor.load, prepared.checkpoint / "actor")
            state.restore(load_driver_state(prepared.checkpoint))
            state.log.resume_at(state.step)
            remove_rollouts_after(prepared.directory.path, state.step)
            prepared.console.resumed(state.step)
        await train(state)
        finish(state)


async def republish(actor: TrainingGroup, router: RolloutRouter, gpus_per_worker: int, handles: list[Any]) -> Any:
    """Form the transfer group anew, with these workers, and send the weights that the router's version names."""
    await asyncio.to_thread(actor.connect_rollout, handles, gpus_per_worker)
    return await asyncio.to_thread(actor.publish_weights, router.version)


def environment_pool(config: RunConfig) -> EnvironmentPool:
    environment = config.environment
    return EnvironmentPool(
        environment.name,
        environment.options,
        servers=environment.servers,
        slots_per_server=environment.slots_per_server,
        reset_timeout_s=environment.reset_timeout_s,
        step_timeout_s=environment.step_timeout_s,
        max_retries=environment.max_retries,
    )


def prompt_renderer(config: RunConfig, prompts: dict[str, str]) -> WindowRenderer:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_path(config), trust_remote_code=config.model.trust_remote_code)
    return WindowRenderer(
        tokenizer,
        prompts,
        config.prompt,
        history_length=config.episode.history_length,
        max_prompt_tokens=config.episode.max_prompt_tokens,
    )
