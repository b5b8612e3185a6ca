"""Where a run stands, for methods whose weights or stages change on the way."""

from __future__ import annotations

from dataclasses import dataclass

from .settings import Settings, number


@dataclass(frozen=True, kw_only=True)
class ProgressSettings(Settings):
    """step: updates done so far, 0 at the first; total_steps: of the run. The driver gives both; a test or a replay may."""

    step: int = number(0)
    total_steps: int = number(150, 1)

    @property
    def share(self) -> float:
        """0 at the first update, 1 at the end of the run and after it."""
        return min(self.step / self.total_steps, 1.0)
