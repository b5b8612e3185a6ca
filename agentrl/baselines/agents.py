"""The agents that can be evaluated: the policy with the prompt of its training, direct, ReAct, Reflexion."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from agentrl.baselines.answers import STYLES, Style
from agentrl.baselines.chat import ChatRenderer, MessageBytes, decode, encode
from agentrl.baselines.endpoint import Endpoint, TooLong
from agentrl.baselines.prompts import ENDED, OPENING, REFLECT, notes_text, rules_of
from agentrl.baselines.words import EvaluateWords
from agentrl.config.schema import RunConfig
from agentrl.driver.episodes import EpisodeFactory, Router
from agentrl.driver.evaluate import EVALUATION_STEP
from agentrl.environments.faults import TrajectoryLost
from agentrl.environments.pool import EnvironmentPool
from agentrl.episode.prompt import Renderer, WindowRenderer
from agentrl.episode.records import Generation, Trajectory
from agentrl.episode.seeds import derive

NO_LIMIT = 1 << 40  # tokens: the endpoint alone knows


@dataclass
class Played:
    """A task and its trials, oldest first; the last one counts. Direct, ReAct and the policy have one.

    notes: what was reflected after each failed trial but the last; "" where there was no room or no answer.
    prompt_tokens, response_tokens: of all trials and notes; None where an endpoint did not say. seconds: from the first
    reset to the last end.
    """

    task: str
    trials: list[Trajectory] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    prompt_tokens: int | None = 0
    response_tokens: int | None = 0
    seconds: float = 0.0

    def count(self, prompt_tokens: int | None, response_tokens: int | None) -> None:
        known = None not in (self.prompt_tokens, prompt_tokens, self.response_tokens, response_tokens)
        self.prompt_tokens = (self.prompt_tokens or 0) + (prompt_tokens or 0) if known else None
        self.response_tokens = (self.response_tokens or 0) + (response_tokens or 0) if known else None


class Fitting:
    """An endpoint that is asked again, with fewer turns, for what did not fit the context of its model.

    full: not even the latest turn fitted. The episode's last turn is then none: the model was never asked for it.
    """

    def __init__(self, endpoint: Endpoint, renderer: Renderer) -> None:
        self.endpoint, self.renderer = endpoint, renderer
        self.release = endpoint.release
        self.full = False

    async def generate(self, prompt_ids: list[int], *, trajectory_key: tuple[int, str, int], **how: Any) -> Generation:
        ids: list[int] | None = prompt_ids
        while ids is not None:
            try:
                return await self.endpoint.generate(ids, trajectory_key=trajectory_key, **how)
            except TooLong as error:
                if not isinstance(self.renderer, ChatRenderer):
                    raise TrajectoryLost(f"the prompt is too long for the endpoint's model ({error})") from None
                ids = self.renderer.latest.shorter()
        self.full = True
        return Generation([], [], "context")


class Agent:
    """Plays tasks. Seeds come from (run seed, task, trial, turn) alone, and those of the policy's single trial are those
    of the evaluation inside training.

    Args:
        tokenizer: of the model; MessageBytes with an Endpoint as router.
        prompts: of the environment, by name.
    """

    def __init__(
        self,
        config: RunConfig,
        own: EvaluateWords,
        pool: EnvironmentPool,
        router: Router,
        tokenizer: Any,
        prompts: dict[str, str],
    ) -> None:
        self.config, self.own, self.pool, self.router, self.tokenizer = config, own, pool, router, tokenizer
        self.prompts = prompts
        remote = own.backend == "openai"
        self.endpoint = router if isinstance(router, Endpoint) else None
        self.answer_limit = own.endpoint.max_tokens if remote else config.episode.max_response_tokens
        self.prompt_limit = None if remote else config.episode.max_prompt_tokens
        # a note may be longer than an answer: what it is written from is shorter by as much
        self.note_prompt_limit = None if remote else config.context_length - own.reflexion.max_tokens
        self.rules = rules_of(config.environment.name, prompts)

    async def play(self, task: str) -> Played:
        """Raises TrajectoryLost, and what ends the evaluation (EndpointFailed, RolloutFailed, EnvironmentServerError)."""
        began, played = time.perf_counter(), Played(task)
        trials = self.own.reflexion.trials if self.own.agent == "reflexion" else 1
        for trial in range(trials):
            played.trials.append(await self._trial(played, trial))
            if played.trials[-1].success or trial == trials - 1:
                break
            played.notes.append(await self._reflect(played))
        played.seconds = time.perf_counter() - began
        return played

    async def _trial(self, played: Played, trial: int) -> Trajectory:
        style = None if self.own.agent == "policy" else STYLES["direct" if self.own.agent == "direct" else "react"]
        renderer = self._window() if style is None else self._chat(style, played.notes)
        router = self.router if self.endpoint is None else Fitting(self.endpoint, renderer)
        parser = None if style is None else style.parse
        episodes = EpisodeFactory(self.config, self.pool, router, renderer, parser)
        episodes.settings = replace(episodes.settings, max_response_tokens=self.answer_limit)
        trajectory = await episodes.run(
            played.task, trial, EVALUATION_STEP, temperature=self.config.evaluation.temperature
        )
        if isinstance(router, Fitting):
            if router.full:
                _end_before_last(trajectory)
            self._tell_tokens(trajectory, played)
        else:
            played.count(sum(len(t.prompt_ids) for t in trajectory.turns), trajectory.response_tokens)
        return trajectory

    def _window(self) -> Renderer:
        return WindowRenderer(
            self.tokenizer,
            self.prompts,
            self.config.prompt,
            history_length=self.config.episode.history_length,
            max_prompt_tokens=self.prompt_limit or NO_LIMIT,
        )

    def _chat(self, style: Style, notes: list[str]) -> Renderer:
        shown = self._shown(notes)

        def opening(task: str) -> str:
            parts = OPENING.format(
                rules=self.rules, task=task, max_turns=self.config.environment.max_turns, format=style.words
            )
            return "\n\n".join(part for part in (parts, notes_text(shown)) if part)

        return ChatRenderer(self.tokenizer, opening, style, limit=self.prompt_limit, history=self.own.history)

    def _shown(self, notes: list[str]) -> list[str]:
        return [note for note in notes if note][-self.own.reflexion.memory :]

    def _tell_tokens(self, trajectory: Trajectory, played: Played) -> None:
        """An endpoint says how many tokens there were, not which: what is kept has that length and takes no room."""
        assert self.endpoint is not None
        for turn, usage in zip(trajectory.turns, self.endpoint.take(trajectory.key), strict=True):
            turn.prompt_ids = range(usage.prompt_tokens or 0)  # type: ignore[assignment]
            turn.response_ids = range(usage.response_tokens or 0)  # type: ignore[assignment]
            played.count(usage.prompt_tokens, usage.response_tokens)

    async def _reflect(self, played: Played) -> str:
        """A note for the next trial; "" when not even the end fits, or when the model says nothing."""
        trial = len(played.trials) - 1
        key: Hashable = ("note", played.task, trial)
        for prompt in self._reflection_prompts(played):
            if self.note_prompt_limit is not None and len(prompt) > self.note_prompt_limit:
                continue
            try:
                made = await self.router.generate(
                    prompt,
                    trajectory_key=key,  # type: ignore[arg-type]
                    max_tokens=self.own.reflexion.max_tokens,
                    temperature=self.config.evaluation.temperature,
                    top_p=self.config.rollout.top_p,
                    seed=derive(self.config.seed, EVALUATION_STEP, played.task, trial, stream="note"),
                )
            except TooLong:
                continue
            self.router.release(key)
            if self.endpoint is not None:
                for usage in self.endpoint.take(key):
                    played.count(usage.prompt_tokens, usage.response_tokens)
            else:
                played.count(len(prompt), len(made.token_ids))
            return " ".join(decode(self.tokenizer, made.token_ids).rpartition("</think>")[2].split())
        return ""

    def _reflection_prompts(self, played: Played) -> Iterator[list[int]]:
        """Ids of what the note is written from: the whole trial, then ever fewer of its turns, the latest ones."""
        trajectory = played.trials[-1]
        parts = [
            f"You saw:\n{turn.observation}\nYou did: {turn.action if turn.valid else repr(turn.text.strip())}"
            for turn in trajectory.turns
        ]
        end = f"At the end you saw:\n{trajectory.final_observation}"
        for first in range(len(parts) + 1):
            left_out = [f"(The first {first} turns are left out here.)"] if first else []
            text = REFLECT.format(
                rules=self.rules,
                task=trajectory.task,
                notes=notes_text(self._shown(played.notes)),
                log="\n\n".join([*left_out, *parts[first:], end]),
                ended=ENDED.get(trajectory.ended, trajectory.ended),
                score=trajectory.score,
            )
            yield encode(self.tokenizer, [{"role": "user", "content": text}])


def _end_before_last(trajectory: Trajectory) -> None:
    """As the episode loop ends one whose prompt does not fit: without a turn; what its end is worth is the one before."""
    last = trajectory.turns.pop()
    trajectory.ended = "context"
    if trajectory.turns:
        trajectory.turns[-1].reward += last.reward


def tokenizer_for(config: RunConfig, own: EvaluateWords) -> Any:
    """The model's tokenizer; MessageBytes for a model behind an endpoint."""
    if own.backend == "openai":
        return MessageBytes()
    from transformers import AutoTokenizer

    from agentrl.driver.specs import model_path

    return AutoTokenizer.from_pretrained(model_path(config), trust_remote_code=config.model.trust_remote_code)
