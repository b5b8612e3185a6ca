"""The past of an episode as a prompt shows it: the last k (observation, action) pairs."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class History:
    """All pairs so far; `observation` is what was seen before `action`."""

    pairs: list[tuple[str, str]] = field(default_factory=list)

    def add(self, observation: str, action: str) -> None:
        self.pairs.append((observation, action))

    def __len__(self) -> int:
        return len(self.pairs)

    def pair_text(self, k: int) -> str:
        """The last k pairs, numbered by turn from 1, one line each part; "none" if there are none."""
        first = max(0, len(self.pairs) - k)
        lines = [
            f"Observation {turn}: {observation}\nAction {turn}: {action}"
            for turn, (observation, action) in enumerate(self.pairs[first:], start=first + 1)
        ]
        return "\n".join(lines) if lines else "none"

    def action_text(self, k: int) -> str:
        """The last k actions, oldest first, one line each; "none" if there are none."""
        actions = [action for _, action in self.pairs[max(0, len(self.pairs) - k) :]]
        return "\n".join(actions) if actions else "none"
