"""Configuration: Hydra composes, a strict typed schema validates, preflight checks the machine. Imports nothing heavy."""

from agentrl.config.compose import compose_config, recipe_names
from agentrl.config.errors import ConfigError
from agentrl.config.schema import RunConfig

__all__ = ["ConfigError", "RunConfig", "compose_config", "recipe_names"]
