"""The house rules that a program can check."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("torch", "ray", "vllm", "verl", "transformers")
MOST_LINES = 350


def sources() -> list[Path]:
    return [
        path for folder in ("agentrl", "envs") for path in (ROOT / folder).rglob("*.py") if "build" not in path.parts
    ]


def test_import_rules_hold() -> None:
    done = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("module", ["agentrl.config", "agentrl.advantage", "agentrl.main", "agentrl.config.preflight"])
def test_light_modules_import_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_files_say_one_thing() -> None:
    long = {str(p.relative_to(ROOT)): n for p in sources() if (n := len(p.read_text().splitlines())) > MOST_LINES}
    assert not long


def test_recipes_fit_one_screen() -> None:
    assert all(len(path.read_text().splitlines()) <= 40 for path in (ROOT / "recipes").glob("*.yaml"))


def test_every_package_folder_is_packaged() -> None:
    listed = (ROOT / "pyproject.toml").read_text()
    for path in (ROOT / "agentrl").rglob("__init__.py"):
        name = ".".join(path.parent.relative_to(ROOT).parts)
        assert f'"{name}"' in listed, f"{name} is not in pyproject.toml's packages"
