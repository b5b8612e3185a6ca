"""TextWorld's own environment with ALFWorld's names, to compare ours with; and the games that both play."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from textworld.core import EnvInfos
from textworld.envs.pddl import PddlEnv


class Stock:
    """The engine as ALFWorld uses it (AlfredDemangler without shuffling), without its wrappers."""

    def __init__(self) -> None:
        self.env = PddlEnv(EnvInfos(admissible_commands=True, won=True))

    def load(self, data: Mapping[str, Any]) -> str:
        from alfworld.agents.utils.misc import Demangler

        self.env.load(dict(data))
        names = Demangler(game_infos=self.env._entity_infos, shuffle=False)
        for info in self.env._entity_infos.values():
            info.name = names.demangle_alfred_name(info.id)
        self.state = self.env.reset()
        return str(self.state.feedback)

    def step(self, command: str) -> str:
        self.state, _, _ = self.env.step(command)
        return str(self.state.feedback)

    @property
    def commands(self) -> list[str]:
        return list(self.state["admissible_commands"])

    @property
    def won(self) -> bool:
        return bool(self.state["won"])


def unordered(text: str) -> tuple[str, ...]:
    """The text with the things it lists in sorted order: TextWorld's order follows Python's salted hashes."""
    parts = re.split(r"(you see |facing the )", text)
    for place in range(2, len(parts), 2):
        listed, dot, rest = parts[place].partition(".")
        parts[place] = ", ".join(sorted(re.split(r", and |, ", listed))) + dot + rest
    return tuple(parts)
