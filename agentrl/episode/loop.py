"""The episode loop: one coroutine per trajectory, token ids in, token ids out."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from agentrl.environments.contract import INFO_KEYS
from agentrl.environments.waits import Waits
from agentrl.episode.parse import Parsed
from agentrl.episode.prompt import Renderer
from agentrl.episode.records import Generation, Trajectory, Turn
from agentrl.episode.seeds import derive
from agentrl.rewards.outcome import RewardSpec


@dataclass(frozen=True)
class EpisodeSettings:
    run_seed: int
    max_turns: int = 15
    max_response_tokens: int = 512
    temperature: float = 1.0
    top_p: float = 1.0


class Session(Protocol):
    """An environment session (agentrl.environments.EnvironmentSession)."""

    seed: int
    recoveries: int

    async def reset(self) -> tuple[str, dict[str, Any]]: ...

    async def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]: ...


class Generate(Protocol):
    """The rollout engine."""

    async def __call__(
        self,
        prompt_ids: list[int],
        *,
        trajectory_key: tuple[int, str, int],
        max_tokens: int,
        temperature: float,
        top_p: float,
        seed: int,
    ) -> Generation: ...


async def run_episode(
    task_id: str,
    member: int,
    step: int,
    *,
    session: Session,
    generate: Generate,
    renderer: Renderer,
    parser: Callable[[str], Parsed],
    reward: RewardSpec,
    settings: EpisodeSettings,
    attempt: int = 0,
    waits: Waits | None = None,
) -> Trajectory:
    """Play one episode to its end: render, generate, parse, step, record.

    A text that holds no action takes no environment step: the page stays, and the turn is recorded as invalid. The
    episode ends when the environment says so, after `settings.max_turns` turns, or when the prompt does not fit.
    The session is the caller's to open and close. Raises TrajectoryLost (the environment could not be recovered) and
    what `generate` raises.
    """
    trajectory = Trajectory(settings.run_seed, step, task_id, member, attempt, session.seed)
    who = f"step {step} task {task_id} member {member}"
    observation, info = await session.reset()
    trajectory.task, trajectory.task_type = info["task"], info["task_type"]
    conversation = renderer.start(trajectory.task)
    while not trajectory.ended:
        prompt = conversation.prompt(observation, info["admissible_actions"])
        if prompt is None:
            trajectory.ended = "context"
            break
        seed = derive(settings.run_seed, step, task_id, member, len(trajectory.turns))
        began = time.perf_counter()
        with nullcontext() if waits is None else waits.on(who, "generate"):
            made = await generate(
                prompt.ids,
                trajectory_key=trajectory.key,
                max_tokens=settings.max_response_tokens,
                temperature=settings.temperature,
                top_p=settings.top_p,
                seed=seed,
            )
        generated = time.perf_counter()
        text = renderer.decode(made.token_ids)
        parsed = parser(text)
        turn = Turn(
            prompt_ids=prompt.ids,
            response_ids=made.token_ids,
            log_probs=made.log_probs,
            observation=observation,
            text=text,
            action=parsed.action,
            thought=parsed.thought,
            valid=parsed.valid,
            effective=False,
            state_key=info["state_key"],
            stop_reason=made.stop_reason,
            policy_version=made.policy_version,
            seed=seed,
            generate_seconds=generated - began,
            cached_tokens=made.cached_tokens,
            invalid_reason=parsed.reason,
        )
        if parsed.valid:
            observation, environment_reward, terminated, truncated, info = await session.step(parsed.action)
            turn.step_seconds = time.perf_counter() - generated
            turn.reward = reward.of_step(environment_reward)
            turn.valid, turn.effective = info["action_valid"], info["action_effective"]
            turn.invalid_reason = "" if turn.valid else "the environment knows no such action here"
            trajectory.ended = "terminated" if terminated else "truncated" if truncated else ""
        trajectory.turns.append(turn)
        conversation.add(turn.observation, turn.action, turn.response_ids)
        if not trajectory.ended and len(trajectory.turns) >= settings.max_turns:
            trajectory.ended = "max_turns"
    if trajectory.turns:
        trajectory.turns[-1].reward += reward.of_end(info)
    trajectory.success, trajectory.score = info["success"], info["score"]
    trajectory.final_observation = observation
    trajectory.details = {key: value for key, value in info.items() if key not in _NOT_DETAILS}
    trajectory.retries = session.recoveries
    return trajectory


_NOT_DETAILS = {*INFO_KEYS, "admissible_actions", "image"}
