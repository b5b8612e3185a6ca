"""The training loop: collect, credit, update, sync, evaluate, log, save. Everything else is elsewhere."""

from __future__ import annotations

import asyncio
import time

from agentrl.driver.credit import assign, learn, rollouts, state_values
from agentrl.driver.evaluate import Evaluation, evaluate, write_transcripts
from agentrl.driver.metrics import Stopwatch, episode_metrics, signal_metrics, token_metrics
from agentrl.driver.run_state import Run
from agentrl.report.rollouts import Rollouts, write_rollouts


async def train(run: Run) -> None:
    """Train until the steps or the minutes are used up or a stop is asked for; the step in hand is always finished.

    On-policy (`sync`): a step's trajectories are all sampled from the weights that its update starts from.
    """
    trainer = run.config.trainer
    await sync_weights(run)
    if run.step == 0:
        await measure(run)
    while not run.finished():
        clock = Stopwatch()
        step = run.step + 1
        with clock("rollout"):
            collected = await run.collector.collect(step, run.cursor)
        with clock("values"):
            values = await state_values(run, collected.groups)
        with clock("advantage"):
            credit = assign(collected.groups, run.method, run.method_settings, values)
        with clock("update"):
            update = await learn(run, collected.groups, credit)
        with clock("sync"):
            await sync_weights(run)
        run.step = step
        run.count(collected.counts)
        trajectories = [trajectory for group in collected.groups for trajectory in group]
        metrics = {
            **episode_metrics(trajectories),
            **token_metrics(trajectories, clock.seconds["rollout"]),
            **signal_metrics(credit.signal),
            **update,
            **{f"count/{name}": float(value) for name, value in collected.counts.items()},
        }
        if run.config.logging.rollouts:
            with clock("rollouts"):
                await keep(run, rollouts(step, run.method, collected.groups, credit))
        if run.due(trainer.checkpoint_every):
            with clock("checkpoint"):
                await asyncio.to_thread(run.save)
        if run.due(run.config.evaluation.every):
            with clock("evaluation"):
                metrics |= (await measure(run)).metrics
        run.record(metrics | clock.metrics(), collected.warnings)
    if run.last_evaluation_step != run.step and not run.stop:
        await measure(run)
    await asyncio.to_thread(run.save)


async def sync_weights(run: Run) -> None:
    """Trainer -> rollout workers; their prefix caches are emptied."""
    descriptor = await asyncio.to_thread(run.actor.publish_weights, run.step)
    await run.router.update_weights(run.step, descriptor)


async def keep(run: Run, kept: Rollouts) -> None:
    """For `agentrl.replay`. A disk that is full costs the replay of this step, not the run."""
    try:
        await asyncio.to_thread(write_rollouts, run.directory.path, kept)
    except OSError as error:
        run.console.warn(f"step {kept.step}: its rollouts could not be kept: {error}")


async def measure(run: Run) -> Evaluation:
    """One evaluation on the held-out tasks, its transcripts and its record."""
    began = time.perf_counter()
    config = run.config.evaluation
    evaluation = await evaluate(run.episodes, run.held_out, config.temperature)
    write_transcripts(run.directory.path / "episodes", run.step, evaluation, config.transcripts)
    run.record_evaluation(evaluation, time.perf_counter() - began)
    return evaluation
