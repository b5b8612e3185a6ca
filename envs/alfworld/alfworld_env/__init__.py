"""ALFWorld (Shridhar et al., 2021) as a fast Gymnasium text environment on TextWorld's own PDDL engine."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    """AlfworldEnv, loaded on first use: the task lists need no engine."""
    if name == "AlfworldEnv":
        from alfworld_env.env import AlfworldEnv

        return AlfworldEnv
    raise AttributeError(f"module 'alfworld_env' has no attribute {name!r}")
