"""Where recipes are found, and the Hydra config source that makes them the group `recipe`.

Recipes are single YAML files in `./recipes`, in the folders of `$AGENTRL_RECIPES` (separated as in PATH) and in the
package itself; the first folder that has a name wins.
"""

from __future__ import annotations

import os
from pathlib import Path

from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult


def recipe_folders() -> list[Path]:
    """Existing recipe folders, the strongest first."""
    package = Path(__file__).resolve().parent.parent
    candidates = [Path.cwd() / "recipes"]
    candidates += [Path(p) for p in os.environ.get("AGENTRL_RECIPES", "").split(os.pathsep) if p]
    # installed, the build maps recipes/ to agentrl/recipes; in a checkout the folder stands beside the package
    candidates += [package / "recipes", package.parent / "recipes"]
    folders: list[Path] = []
    for folder in candidates:
        resolved = folder.resolve()
        if resolved.is_dir() and resolved not in folders:
            folders.append(resolved)
    return folders


def recipe_names() -> list[str]:
    """All recipe names, sorted."""
    return sorted({file.stem for folder in recipe_folders() for file in folder.glob("*.yaml")})


class RecipeSource(FileConfigSource):
    """Serves FOLDER/NAME.yaml as `recipe/NAME`: a recipe folder needs no `recipe/` level inside it."""

    @staticmethod
    def scheme() -> str:
        return "agentrl-recipes"

    @staticmethod
    def _inside(path: str) -> str | None:
        head, _, rest = path.partition("/")
        return rest if head == "recipe" else None

    def load_config(self, config_path: str) -> ConfigResult:
        inside = self._inside(config_path)
        return super().load_config(config_path if inside is None else inside)

    def is_config(self, config_path: str) -> bool:
        inside = self._inside(config_path)
        return inside is not None and inside != "" and super().is_config(inside)

    def is_group(self, config_path: str) -> bool:
        return config_path in ("", "recipe")

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        return super().list("", results_filter) if config_path == "recipe" else []


def search_path() -> list[str]:
    """Hydra search path entries of the recipe folders."""
    Plugins.instance().register(RecipeSource)
    return [f"{RecipeSource.scheme()}://{folder}" for folder in recipe_folders()]
