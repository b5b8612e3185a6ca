"""ScienceWorld as a Gymnasium text environment. Importing it registers `ScienceWorld-v0`."""

import gymnasium

from scienceworld_env.env import ScienceWorldEnv

__all__ = ["ScienceWorldEnv"]

if "ScienceWorld-v0" not in gymnasium.registry:
    gymnasium.register(
        id="ScienceWorld-v0", entry_point="scienceworld_env.env:ScienceWorldEnv", disable_env_checker=True
    )
