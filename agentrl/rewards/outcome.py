"""The outcome reward: what the environment says in the end, or what it says at every step, times a scale.

The penalty for invalid actions is not taken here: the advantage stage takes it, where methods differ in how.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

KINDS = ("success", "score", "environment")


@dataclass(frozen=True)
class RewardSpec:
    """How the rows (turns) of a trajectory are paid.

    kind:
        success      `scale` on the last row if `info["success"]` at the end, else 0 (GiGPO, PTGPO: scale 10)
        score        `scale * info["score"]` of the end, on the last row
        environment  `scale * r` on each row, r the reward of that environment step (0 where there was none)
    """

    kind: Literal["success", "score", "environment"] = "success"
    scale: float = 10.0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"environment.reward.kind={self.kind}: must be one of {', '.join(KINDS)}.")

    def of_step(self, environment_reward: float) -> float:
        """Paid on the row of an environment step."""
        return self.scale * environment_reward if self.kind == "environment" else 0.0

    def of_end(self, info: dict[str, Any]) -> float:
        """Paid on the last row, besides, however the episode ended; `info` is that of the last reset or step."""
        if self.kind == "success":
            return self.scale if info["success"] else 0.0
        return self.scale * float(info["score"]) if self.kind == "score" else 0.0
