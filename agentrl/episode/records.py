"""What an episode leaves behind: plain records, one per turn and one per trajectory. No torch, no tensors."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class Generation:
    """What a rollout engine made for one turn: token ids and their log-probs under `policy_version`."""

    token_ids: list[int]
    log_probs: list[float]
    stop_reason: str  # "stop", "length", ... as the engine says
    policy_version: int = 0
    cached_tokens: int = 0  # prompt tokens taken from the prefix cache


@dataclass
class Turn:
    """One turn: what was asked, exactly what was generated, and what came of it."""

    prompt_ids: list[int]
    response_ids: list[int]  # as the engine made them, the end token too
    log_probs: list[float]  # one per response id
    observation: str  # what the policy saw before it answered
    text: str  # the response, decoded
    action: str  # parsed; "<invalid>" for every text that is none
    thought: str = ""
    valid: bool = True  # it parsed, and the environment knows the action
    effective: bool = True  # it changed something
    reward: float = 0.0  # before any penalty
    state_key: str = ""  # of the state that `observation` shows
    stop_reason: str = "stop"
    policy_version: int = 0
    seed: int = 0
    generate_seconds: float = 0.0
    step_seconds: float = 0.0
    cached_tokens: int = 0
    invalid_reason: str = ""  # why it is not valid

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Turn:
        return cls(**_known(cls, values))


@dataclass
class Trajectory:
    """One finished episode. `key` is its identity within a run; `attempt` tells tries of that identity apart."""

    run_seed: int
    step: int
    task_id: str
    member: int
    attempt: int = 0
    env_seed: int = 0
    turns: list[Turn] = field(default_factory=list)
    success: bool = False
    score: float = 0.0
    task_type: str = ""
    task: str = ""
    ended: str = ""  # "terminated" | "truncated" (by the environment) | "max_turns" | "context"
    retries: int = 0  # times its environment was recovered
    final_observation: str = ""
    details: dict[str, Any] = field(default_factory=dict)  # what the environment added to info at the end

    @property
    def key(self) -> tuple[int, str, int]:
        return (self.step, self.task_id, self.member)

    @property
    def total_reward(self) -> float:
        return sum(turn.reward for turn in self.turns)

    @property
    def response_tokens(self) -> int:
        return sum(len(turn.response_ids) for turn in self.turns)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Trajectory:
        plain = _known(cls, values)
        plain["turns"] = [Turn.from_dict(turn) for turn in plain.get("turns", [])]
        return cls(**plain)


def _known(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    names = {item.name for item in fields(cls)}
    unknown = sorted(set(values) - names)
    if unknown:
        raise ValueError(f"a {cls.__name__} record has no field {unknown[0]!r}; it was written by another version.")
    return dict(values)
