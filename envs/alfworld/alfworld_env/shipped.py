"""What the `alfworld` package ships and we use: PDDL domain, text grammar, object tables, goals, floor plans.

`import alfworld` itself would make folders in the user's home and set ALFWORLD_DATA, so its files are read by path.
"""

from __future__ import annotations

import importlib.util
import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

INSTALL = "run `make alfworld`, or pip install 'alfworld==0.4.2' 'textworld[pddl]==1.7.0'"


@cache
def root() -> Path:
    """The folder of the installed `alfworld`. ImportError where it is not installed."""
    found = importlib.util.find_spec("alfworld")
    if found is None or found.origin is None:
        raise ImportError(f"ALFWorld's engine is not installed: {INSTALL}.")
    return Path(found.origin).parent


@cache
def domain() -> str:
    """The PDDL domain."""
    return (root() / "data" / "alfred.pddl").read_text()


@cache
def grammar() -> str:
    """The text grammar, with UNKNOWN GOAL where the goal goes."""
    return (root() / "data" / "alfred.twl2").read_text()


@cache
def constants() -> ModuleType:
    """Object and receptacle tables (alfworld/gen/constants.py)."""
    return _module("constants")


@cache
def goals() -> dict[str, Any]:
    """Task type -> {"pddl": goal with gaps, "templates": sentences with gaps} (alfworld/gen/goal_library.py)."""
    library: dict[str, Any] = _module("goal_library").gdict
    return library


@cache
def floor_plan(number: int) -> tuple[dict[str, list[float]], list[str], np.ndarray]:
    """Of one floor plan: openable receptacle id -> [x, z, rotation, horizon] to open it from; the object types that
    occur; the points that can be reached, float64[points, 2]."""
    base = root() / "gen" / "layouts"
    openable = json.loads((base / f"FloorPlan{number}-openable.json").read_text())
    objects = json.loads((base / f"FloorPlan{number}-objects.json").read_text())
    return openable, objects, np.load(base / f"FloorPlan{number}-layout.npy")


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"alfworld_env._{name}", root() / "gen" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
