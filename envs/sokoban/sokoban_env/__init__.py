"""Sokoban as a fast Gymnasium text environment. Importing it registers `Sokoban-v0`."""

import gymnasium

from sokoban_env.env import SokobanEnv

__all__ = ["SokobanEnv"]

if "Sokoban-v0" not in gymnasium.registry:
    gymnasium.register(id="Sokoban-v0", entry_point="sokoban_env.env:SokobanEnv", disable_env_checker=True)
