"""What is installed holds what the program needs: recipes, configuration, the tiny policy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with agentrl and the packages under envs/ as wheels install them."""
    base = tmp_path_factory.mktemp("packaging")
    for name in ("agentrl", "recipes", "envs"):
        shutil.copytree(ROOT / name, base / "source" / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, base / "source" / name)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-index", "--no-deps",
           "--no-build-isolation", "--no-compile", "--target", str(base / "site")]  # fmt: skip
    for folder in (base / "source", *sorted((base / "source" / "envs").iterdir())):
        done = subprocess.run([*pip, str(folder)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stderr
    return base / "site"


def run(words: list[str], site: Path, cwd: Path) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "AGENTRL_RECIPES"} | {"PYTHONPATH": str(site)}
    done = subprocess.run([sys.executable, *words], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_wheels_run_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    assert run(["-c", "import agentrl; print(agentrl.__file__)"], installed, tmp_path).startswith(str(installed))
    names = {path.stem for path in (ROOT / "recipes").glob("*.yaml")}
    text = run(["-m", "agentrl.main", "--help"], installed, tmp_path)
    assert names and all(f"+recipe={name}" in text for name in names)
    shown = run(["-m", "agentrl.main", "+recipe=ptgpo_webshop", "scale=cpu", "--cfg", "job"], installed, tmp_path)
    assert "recipe: ptgpo_webshop" in shown


def test_wheels_hold_every_file(installed: Path) -> None:
    packages = [(path, path.name) for path in (ROOT / "envs").glob("*/*_env")]
    assert len(packages) == len(list((ROOT / "envs").iterdir()))
    for source, target in ((ROOT / "agentrl", "agentrl"), (ROOT / "recipes", "agentrl/recipes"), *packages):
        wanted = {p.relative_to(source) for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
        have = {p.relative_to(installed / target) for p in (installed / target).rglob("*") if p.is_file()}
        assert wanted <= have, f"not in the wheel: {sorted(map(str, wanted - have))}"


def test_the_editable_install_finds_them_too(tmp_path: Path) -> None:
    """As `make` installs: from another folder, without PYTHONPATH."""
    environment = {k: v for k, v in os.environ.items() if k not in ("AGENTRL_RECIPES", "PYTHONPATH")}
    done = subprocess.run([sys.executable, "-m", "agentrl.main", "+recipe=ptgpo_webshop", "scale=cpu", "--cfg", "job"],
                          cwd=tmp_path, env=environment, capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0 and "recipe: ptgpo_webshop" in done.stdout, done.stderr
    assert list((ROOT / "envs").glob("*/build")) == [] and not (ROOT / "build").exists()
