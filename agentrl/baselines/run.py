"""One evaluation from a checked request to its table: every task once, each written down as it ends."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import yaml

from agentrl.baselines.agents import Agent, tokenizer_for
from agentrl.baselines.check import Ready, try_endpoint
from agentrl.baselines.endpoint import Endpoint, EndpointFailed
from agentrl.baselines.results import Results, added, summarise, table
from agentrl.config.errors import ConfigError
from agentrl.config.preflight import check_workers
from agentrl.config.schema import RunConfig
from agentrl.driver.signals import StopRequest
from agentrl.environments.faults import TrajectoryLost
from agentrl.report.files import write_text
from agentrl.report.versions import versions

REPORTS = 10  # lines of progress in a whole evaluation
MOST_REASONS = 20  # of lost tasks, in evaluation.json
LONGEST_REASON = 300  # characters of what ended an evaluation, there too


def evaluate(ready: Ready) -> int:
    """Play what is not yet there, print and write. Returns 0 when done or stopped cleanly, 1 when it could not go on.

    Raises ConfigError for what only the endpoint, the folder or the cluster could tell.
    """
    with Results(ready.out, ready.identity) as results:
        todo = [task for task in ready.tasks if task not in results.lines]
        evaluation = Evaluating(ready, results, todo)
        for line in evaluation.banner():
            print(line)
        if todo:
            if ready.request.own.backend == "openai":
                try_endpoint(ready)
            evaluation.begin()
            return evaluation.play()
        return evaluation.finish("done")


class Evaluating:
    """The state of one evaluation. `todo` are the tasks that have no result yet."""

    def __init__(self, ready: Ready, results: Results, todo: list[str]) -> None:
        self.ready, self.results, self.todo = ready, results, todo
        self.config, self.own = ready.request.config, ready.request.own
        self.stop = StopRequest("finishing the episodes in hand; what is finished is kept")
        self.lost: dict[str, str] = {}  # task -> why
        self._counting: dict[str, Any] = {}  # name -> what has counters
        self._started: float | None = None  # None: there is nothing to play
        self._ended = 0
        self._written = set(ready.tasks[: self.config.evaluation.transcripts])  # as transcripts, too

    def banner(self) -> Iterator[str]:
        config, own = self.config, self.own
        model = f"{own.endpoint.model} at {own.endpoint.url}" if own.backend == "openai" else config.model.path
        temperature = config.evaluation.temperature
        agent = f"{own.agent}, at most {own.reflexion.trials} trials" if own.agent == "reflexion" else own.agent
        yield f"agent          {agent}  ({'greedy' if temperature == 0 else f'temperature {temperature:g}'}, seed {config.seed})"
        yield f"model          {model}"
        yield f"environment    {config.environment.name}, split {config.evaluation.split}, {len(self.ready.tasks)} tasks"
        yield f"results        {self.ready.out}"
        there = len(self.ready.tasks) - len(self.todo)
        if there:
            left = f"going on with the other {len(self.todo)}" if self.todo else "nothing is left to play"
            yield f"{there} of {len(self.ready.tasks)} tasks are there from before: {left}"

    def begin(self) -> None:
        """Open the folder for what comes, with the configuration in it."""
        self._started = time.monotonic()
        self.results.begin(self._summary("running"))
        tree = {"evaluate": self.own.model_dump(mode="json"), **self.config.model_dump(mode="json")}
        write_text(self.ready.out / "config.yaml", yaml.safe_dump(tree, sort_keys=False))

    def play(self) -> int:
        import ray

        from agentrl.driver.cluster import connect

        state, reason = "failed", ""
        try:
            connect(
                self.config, _no_workers if self.own.backend == "openai" else partial(check_workers, training=False)
            )
            self.stop.install()
            asyncio.run(self._play())
            state = "stopped" if self.stop and self.left else "done"
        except EndpointFailed as error:
            reason = str(error)
            print(f"agentrl: {error}", file=sys.stderr)
        except ConfigError as error:
            reason = str(error)
            raise
        except BaseException as error:
            reason = " ".join(repr(error).split())
            if isinstance(error, Exception):
                print(
                    "the evaluation failed; what is finished is kept, and the same command goes on once the reason is "
                    "mended"
                )
            raise
        finally:
            reason = reason[:LONGEST_REASON]
            ray.shutdown()
            if state == "failed":
                self.results.write(self._summary(state, reason))
        return self.finish(state, reason)

    @property
    def left(self) -> int:
        return sum(task not in self.results.lines and task not in self.lost for task in self.ready.tasks)

    async def _play(self) -> None:
        from agentrl.driver.run import environment_pool

        async with AsyncExitStack() as stack:
            pool = environment_pool(self.config)
            stack.push_async_callback(pool.close)
            router: Any
            if self.own.backend == "openai":
                router, starting = Endpoint(self.own.endpoint, self.ready.key), []
                at_once = self.own.endpoint.concurrency
            else:
                router = rollout_router(self.config)
                starting = [router.start()]
                at_once = self.config.rollout.max_num_seqs * self.config.rollout.workers
            stack.push_async_callback(router.close)
            self._counting = {"environment": pool, "model": router}
            tokenizer = await asyncio.to_thread(tokenizer_for, self.config, self.own)
            await asyncio.gather(pool.start(), *starting)
            agent = Agent(self.config, self.own, pool, router, tokenizer, self.ready.prompts)
            await self._play_all(agent, min(at_once, pool.free_slots, len(self.todo)))

    async def _play_all(self, agent: Agent, at_once: int) -> None:
        coming = iter(self.todo)
        began = time.monotonic()

        async def player() -> None:
            for task in coming:
                if self.stop:
                    return
                try:
                    played = await agent.play(task)
                except TrajectoryLost as error:
                    self.lost[task] = error.reason
                    print(f"warning: task {task} is lost: {error.reason}", flush=True)
                else:
                    self.results.add(played, transcript=task in self._written)
                self._ended += 1
                self._progress(began)

        players = [asyncio.create_task(player()) for _ in range(at_once)]
        try:
            await asyncio.gather(*players)
        finally:
            for one in players:
                one.cancel()
            await asyncio.gather(*players, return_exceptions=True)

    def _progress(self, began: float) -> None:
        """A line for every tenth of what is to be played; the counters so far are written down with it, as a kill would
        lose them."""
        total = len(self.todo)
        if self._ended * REPORTS // total == (self._ended - 1) * REPORTS // total:
            return
        lines = self._lines()
        success = sum(line["success"] for line in lines) / len(lines) if lines else 0.0
        minutes = (time.monotonic() - began) / self._ended * (total - self._ended) / 60
        print(
            f"{len(lines)}/{len(self.ready.tasks)} tasks have ended, {success:.1%} of them with success"
            + (f", about {minutes:.0f} min left" if minutes >= 1 else ""),
            flush=True,
        )
        self.results.write(self._summary("running"))

    def finish(self, state: str, reason: str = "") -> int:
        """Write evaluation.json, print the table. Returns the exit status."""
        summary = self._summary(state, reason)
        path = self.results.write(summary)
        print()
        for line in table(summary):
            print(line)
        tokens = summary["all"].get("prompt_tokens"), summary["all"].get("response_tokens")
        if None not in tokens:
            print(f"tokens: {tokens[0]} of prompts, {tokens[1]} of responses")
        if self.lost:
            print(f"{len(self.lost)} tasks were lost and are not in these numbers; the same command plays them again.")
        if self.left:
            print(f"{self.left} tasks are left to play; the same command goes on with them.")
        print(f"{path}")
        return 1 if state == "failed" else 0

    def _lines(self) -> list[dict[str, Any]]:
        return [self.results.lines[task] for task in self.ready.tasks if task in self.results.lines]

    def _summary(self, state: str, reason: str = "") -> dict[str, Any]:
        """What evaluation.json holds. Of the tasks that were asked for, in their order, whatever else lies there."""
        config, request = self.config, self.ready.request
        # of this part; the folder knows those of the parts before
        counters = {name: dict(one.counters) for name, one in self._counting.items()}
        seconds = 0.0 if self._started is None else time.monotonic() - self._started
        return {
            "state": state,
            "reason": reason,
            "model": self.own.endpoint.model if self.own.backend == "openai" else config.model.path,
            "recipe": config.recipe,
            "run_dir": None if request.run_dir is None else str(request.run_dir),
            "checkpoint_step": request.step,
            "tasks_asked": len(self.ready.tasks),
            "tasks_left": self.left,
            "tasks_lost": len(self.lost),
            "lost": dict(list(self.lost.items())[:MOST_REASONS]),
            **summarise(self._lines()),
            "counters": added(self.results.counters, counters),
            "seconds": self.results.seconds + seconds,
            "versions": versions(),
        }


def rollout_router(config: RunConfig) -> Any:
    """The run's rollout workers, which keep the weights that they load."""
    from agentrl.driver.specs import rollout_spec
    from agentrl.engine.router import RolloutRouter

    return RolloutRouter(rollout_spec(config), config.rollout.workers, timeout_s=config.rollout.generate_timeout_s)


def _no_workers(config: RunConfig, have: int, unit: str) -> None:
    """An endpoint needs no room here."""
