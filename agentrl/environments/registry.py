"""Finding environment packages by entry point, without importing those that a run does not use."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from typing import Any

from agentrl.environments.contract import ContractError, EnvironmentPlugin, check_plugin

GROUP = "agentrl.environments"

OURS = {
    name: f"pip install ./envs/{name}" for name in ("webshop", "alfworld", "scienceworld", "sokoban", "search", "math")
}
"""Environments that this repository carries, and how each is installed from a checkout."""


def available_environments() -> dict[str, str]:
    """Name -> import path of every installed environment. Reads package metadata only; imports none of them."""
    return {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)}


def load_environment(name: str) -> EnvironmentPlugin:
    """The plugin called `name`: an entry point of the group, or an import path `package.module:object`.

    Raises ConfigError for a name that no installed package offers (it says the nearest and how to install it) and for
    a package that cannot be imported; ContractError for one that lacks a part of the contract.
    """
    installed = available_environments()
    if name in installed:
        path = installed[name]
    elif ":" in name:
        path = name
    else:
        hint = _nearest(name, installed) + _install(name)
        raise _refused(f"environment.name={name}: no installed package offers it.{hint}")
    module, _, attribute = path.partition(":")
    try:
        plugin: Any = importlib.import_module(module)
        for part in filter(None, attribute.split(".")):
            plugin = getattr(plugin, part)
    except ContractError:
        raise
    except Exception as error:
        raise _refused(
            f"environment.name={name}: its package cannot be loaded from {path} ({type(error).__name__}: {error}); "
            "install it with all it needs."
        ) from error
    return check_plugin(plugin, name)


def _nearest(name: str, installed: dict[str, str]) -> str:
    near = difflib.get_close_matches(name, sorted({*installed, *OURS}), n=3, cutoff=0.5)
    if near:
        return f" Did you mean {', '.join(near)}?"
    return f" Installed: {', '.join(sorted(installed))}." if installed else " None is installed."


def _install(name: str) -> str:
    near = difflib.get_close_matches(name, OURS, n=1, cutoff=0.5)
    if near:
        return f" To install {near[0]}, give `{OURS[near[0]]}` in a checkout of agentrl."
    return (
        f" Install the package that offers it (an entry point of the group {GROUP}), "
        "or name it as package.module:object."
    )


def _refused(message: str) -> Exception:
    # imported here: the configuration package brings Hydra and pydantic, which an environment server does not need
    from agentrl.config.errors import ConfigError

    return ConfigError(message)
