"""One run from a validated configuration to its summary: build the parts, train, close everything."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig
from agentrl.driver.checkpoint import check_resume, load_driver_state
from agentrl.driver.cluster import connect
from agentrl.driver.collect import Collector
from agentrl.driver.episodes import EpisodeFactory
from agentrl.driver.run_state import Run
from agentrl.driver.signals import StopRequest
from agentrl.driver.specs import model_path, rollout_spec, training_spec
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
from agentrl.report.run_directory import RunDirectory
from agentrl.report.summary import finish


def run(config: RunConfig, words: list[str]) -> int:
    """Train. Returns 0 when done or stopped cleanly. Raises ConfigError for what only the cluster or data could tell."""
    started = time.time()
    checkpoint = check_resume(config) if config.resume else None
    plugin = load_environment(config.environment.name)
    options = config.environment.options
    train_tasks = plugin.tasks(config.environment.train_split, **options)
    held_out = plugin.tasks(config.evaluation.split, **options).ids
    if config.evaluation.tasks > len(held_out):
        raise ConfigError(
            f"evaluation.tasks={config.evaluation.tasks}: the split {config.evaluation.split} of "
            f"{config.environment.name} has {len(held_out)} tasks; lower it."
        )
    directory = RunDirectory.create(config, words, train_tasks.fingerprint)
    console = Console(config, directory.path)
    console.start()
    connect(config)
    stop = StopRequest()
    stop.install()
    try:
        return asyncio.run(
            _run(config, started, checkpoint, directory, console, stop, train_tasks.fingerprint,
                 TaskCursor(train_tasks.ids, config.seed), held_out[: config.evaluation.tasks], plugin.prompts)
        )  # fmt: skip
    finally:
        import ray

        ray.shutdown()


async def _run(
    config: RunConfig,
    started: float,
    checkpoint: Path | None,
    directory: RunDirectory,
    console: Console,
    stop: StopRequest,
    fingerprint: str,
    cursor: TaskCursor,
    held_out: list[str],
    prompts: dict[str, str],
) -> int:
    memory = MemorySampler()
    environment, episode = config.environment, config.episode
    async with AsyncExitStack() as stack:
        memory.start()
        stack.callback(memory.stop)
        pool = EnvironmentPool(
            environment.name,
            environment.options,
            servers=environment.servers,
            slots_per_server=environment.slots_per_server,
            reset_timeout_s=environment.reset_timeout_s,
            step_timeout_s=environment.step_timeout_s,
            max_retries=environment.max_retries,
        )
        stack.push_async_callback(pool.close)
        router = RolloutRouter(rollout_spec(config), config.rollout.workers, timeout_s=config.rollout.generate_timeout_s)
        stack.push_async_callback(router.close)
        # the three kinds of workers start side by side: most of it is imports
        starting = asyncio.gather(
            pool.start(), router.start(), asyncio.to_thread(TrainingGroup.start, training_spec(config))
        )
        renderer = await asyncio.to_thread(_renderer, config, prompts)
        *_, actor = await starting
        stack.callback(actor.close)
        episodes = EpisodeFactory(config, pool, router, renderer)
        trainer = config.trainer
        state = Run(
            config=config,
            directory=directory,
            log=MetricsLog(directory.path, config),
            console=console,
            memory=memory,
            stop=stop,
            actor=actor,
            router=router,
            episodes=episodes,
            collector=Collector(
                episodes, trainer.groups_per_step, trainer.group_size, config.min_group_size, trainer.max_replaced_groups
            ),
            cursor=cursor,
            held_out=held_out,
            data_fingerprint=fingerprint,
            started=started,
        )
        stack.callback(state.log.close)
        if checkpoint is not None:
            await asyncio.to_thread(actor.load, checkpoint / "actor")
            state.restore(load_driver_state(checkpoint))
            state.log.resume_at(state.step)
            console.resumed(state.step)
        await train(state)
        finish(state)
    return 0


def _renderer(config: RunConfig, prompts: dict[str, str]) -> WindowRenderer:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model_path(config), trust_remote_code=config.model.trust_remote_code)
    return WindowRenderer(
        tokenizer,
        prompts,
        config.prompt,
        history_length=config.episode.history_length,
        max_prompt_tokens=config.episode.max_prompt_tokens,
    )

