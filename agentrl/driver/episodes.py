"""One episode from start to end: open an environment, run the coroutine, give the environment back."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Protocol

from agentrl.config.schema import RunConfig
from agentrl.environments.pool import EnvironmentPool
from agentrl.episode.loop import EpisodeSettings, Generate, run_episode
from agentrl.episode.parse import ActionParser, Parsed
from agentrl.episode.prompt import Renderer
from agentrl.episode.records import Trajectory
from agentrl.episode.seeds import derive
from agentrl.rewards.outcome import RewardSpec


class Router(Protocol):
    """Who answers: the rollout workers (agentrl.engine.router.RolloutRouter), or an endpoint in an evaluation."""

    @property
    def generate(self) -> Generate: ...

    def release(self, trajectory_key: Hashable) -> None: ...


class EpisodeFactory:
    """Runs episodes with the run's settings; may be called for many trajectories at once.

    parser: text -> action; None for that of the run.
    """

    def __init__(
        self,
        config: RunConfig,
        pool: EnvironmentPool,
        router: Router,
        renderer: Renderer,
        parser: Callable[[str], Parsed] | None = None,
    ) -> None:
        self.pool, self.router, self.renderer = pool, router, renderer
        self.parser = parser or ActionParser(require_think=config.episode.require_think)
        self.reward = RewardSpec(config.environment.reward.kind, config.environment.reward.scale)
        self.settings = EpisodeSettings(
            run_seed=config.seed,
            max_turns=config.environment.max_turns,
            max_response_tokens=config.episode.max_response_tokens,
            temperature=config.rollout.temperature,
            top_p=config.rollout.top_p,
        )

    async def run(self, task: str, member: int, step: int, temperature: float | None = None) -> Trajectory:
        """Raises TrajectoryLost when the environment could not be kept alive within its retries.

        The environment's seed leaves the member out: all members of a group start from the same state.
        """
        settings = self.settings if temperature is None else replace(self.settings, temperature=temperature)
        seed = derive(settings.run_seed, step, task, member, stream="env")
        who = f"step {step} task {task} member {member}"
        async with await self.pool.open(task, seed, who) as session:
            trajectory = await run_episode(
                task,
                member,
                step,
                session=session,
                generate=self.router.generate,
                renderer=self.renderer,
                parser=self.parser,
                reward=self.reward,
                settings=settings,
                waits=self.pool.waits,
            )
        self.router.release(trajectory.key)
        return trajectory
