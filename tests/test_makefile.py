"""`make venv`: what it installs in which order, and when it does so again.

A recorder stands for Python and pip (the real installation takes minutes; continuous integration makes it each time).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORDER = """#!/bin/bash
# `-m venv FOLDER` makes a folder with this recorder as its Python; everything else is written down
case "$*" in
  *"import sys, venv, ensurepip"*) exit ${TOO_NEW:-0} ;;
  *"sys._base_executable"*) echo "$BASE"; exit 0 ;;
  --version) echo "Python 3.13.1"; exit 0 ;;
esac
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; echo "venv" >> said; exit 0; fi
echo "$*" >> said
if [ -n "${FAILS_AT:-}" ]; then case "$*" in *"$FAILS_AT"*) exit 1 ;; esac; fi
exit 0
"""


def clean() -> dict[str, str]:
    """The environment without what an outer make, which runs these tests, hands down."""
    ours = ("MAKEFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "MFLAGS", "EXTRA", "PYTHON", "ARGS", "TORCH_INDEX_URL")
    return {name: value for name, value in os.environ.items() if name not in ours}


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "locks").mkdir()
        shutil.copy(ROOT / "Makefile", folder)
        (folder / "locks" / "cpu.txt").write_text("numpy==1.0 --hash=sha256:0\n")
        (folder / "locks" / "gpu.txt").write_text("numpy==2.0 --hash=sha256:0\n")
        (folder / "pyproject.toml").write_text("[project]\n")
        (folder / "envs" / "webshop").mkdir(parents=True)
        (folder / "envs" / "webshop" / "pyproject.toml").write_text("[project]\n")
        (folder / "python").write_text(RECORDER)
        (folder / "python").chmod(0o755)

    def make(
        self, *words: str, fails: bool = False, python: str = "./python", **environment: str
    ) -> tuple[list[str], str]:
        """What was asked of Python, without the flags that are always there, and what was printed."""
        said = self.folder / "said"
        said.unlink(missing_ok=True)
        done = subprocess.run(
            ["make", *words, f"PYTHON={python}"],
            cwd=self.folder, env=clean() | environment, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        pip = "-m pip install -qq --disable-pip-version-check --no-input "
        asked = said.read_text().splitlines() if said.exists() else []
        return [line.replace(pip, "pip ") for line in asked], done.stdout + done.stderr


TORCH = "pip torch==2.13.0"
LOCK = "pip --no-deps --require-hashes -r locks/cpu.txt"
OWN = "pip --no-deps --no-build-isolation -e ./envs/webshop -e ."
ALL = ["venv", TORCH, LOCK, OWN]
ENGINES = "pip --no-deps --require-hashes -r locks/engines.txt"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_torch_first_alone_then_the_lock_then_ourselves(checkout: Checkout) -> None:
    assert checkout.make("venv")[0] == ALL


def test_only_once(checkout: Checkout) -> None:
    checkout.make("venv")
    assert checkout.make("venv")[0] == []
    assert checkout.make("test")[0] == [ENGINES, "-m pytest"]
    assert checkout.make("test")[0] == ["-m pytest"]
    assert checkout.make("demo", "ARGS=seed=2")[0] == ["-m agentrl.main +recipe=ptgpo_webshop seed=2"]


def test_again_when_the_lock_changed(checkout: Checkout) -> None:
    checkout.make("venv")
    (checkout.folder / "locks" / "cpu.txt").write_text("numpy==1.1 --hash=sha256:0\n")
    (checkout.folder / ".venv" / "leftover").write_text("")
    assert checkout.make("venv")[0] == ALL
    assert not (checkout.folder / ".venv" / "leftover").exists()


@pytest.mark.parametrize("file", ["pyproject.toml", "envs/webshop/pyproject.toml"])
def test_our_own_packages_alone_when_only_they_changed(file: str, checkout: Checkout) -> None:
    checkout.make("venv")
    (checkout.folder / file).write_text("[project]\nname = 'x'\n")
    assert checkout.make("venv")[0] == [OWN]
    assert checkout.make("venv")[0] == []


@pytest.mark.parametrize("where", ["torch", "--require-hashes", "-e ."])
def test_a_half_made_environment_is_finished_or_made_anew(where: str, checkout: Checkout) -> None:
    checkout.make("test", fails=True, FAILS_AT=where)
    asked, _ = checkout.make("venv")
    assert asked == ([OWN] if where == "-e ." else ALL)


def test_an_environment_that_somebody_else_made_is_kept(checkout: Checkout) -> None:
    (checkout.folder / ".venv").mkdir()
    (checkout.folder / ".venv" / "mine").write_text("hours of work")
    asked, text = checkout.make("test")
    assert asked == [*ALL, ENGINES, "-m pytest"]
    (kept,) = checkout.folder.glob(".venv-before-*")
    assert (kept / "mine").read_text() == "hours of work" and kept.name in text
    (checkout.folder / "locks" / "cpu.txt").write_text("numpy==1.1 --hash=sha256:0\n")
    assert checkout.make("venv")[0] == ALL
    assert list(checkout.folder.glob(".venv-before-*")) == [kept], "our own is made anew in its place"


def test_another_build_of_torch(checkout: Checkout) -> None:
    assert checkout.make("venv", "TORCH_INDEX_URL=https://example.org/whl")[0][1] == (
        f"{TORCH} --index-url https://example.org/whl"
    )


def test_an_environment_for_gpus_stays_one(checkout: Checkout) -> None:
    checkout.make("venv")
    assert checkout.make("venv", "EXTRA=gpu")[0] == ["venv", TORCH, LOCK.replace("cpu", "gpu"), OWN]
    assert checkout.make("test")[0] == [ENGINES, "-m pytest"]
    assert checkout.make("venv", "EXTRA=cpu")[0] == ALL


@pytest.mark.parametrize(
    ("words", "environment", "parts"),
    [
        (["EXTRA=tpu"], {}, ["EXTRA=tpu", "EXTRA=cpu or EXTRA=gpu"]),
        ([], {"TOO_NEW": "1"}, ["PYTHON=./python (Python 3.13.1)", "Python 3.11 or 3.12"]),
        ([], {"python": "./nowhere"}, ["PYTHON=./nowhere", "No such file", "Python 3.11 or 3.12"]),
        ([], {"python": ""}, ["no Python 3.11 or 3.12", "PYTHON=/path/to/python3.11"]),
    ],
    ids=["unknown extra", "Python too new", "no such Python", "no Python"],
)
def test_says_what_is_missing(
    words: list[str], environment: dict[str, str], parts: list[str], checkout: Checkout
) -> None:
    (checkout.folder / ".venv").mkdir()
    (checkout.folder / ".venv" / "mine").write_text("")
    asked, text = checkout.make("test", *words, fails=True, **environment)
    assert all(part in text for part in parts), text
    assert asked == [] and (checkout.folder / ".venv" / "mine").exists(), "nothing is thrown away before it can be made"


@pytest.mark.parametrize("spelled", [".venv/bin/python", "./.venv/bin/python", "{folder}/.venv/bin/python"])
def test_an_activated_environment_that_is_made_anew_does_not_take_its_python_away(
    spelled: str, checkout: Checkout
) -> None:
    checkout.make("venv")
    (checkout.folder / "locks" / "cpu.txt").write_text("numpy==1.1 --hash=sha256:0\n")
    python = spelled.format(folder=checkout.folder)
    assert checkout.make("venv", python=python, BASE=str(checkout.folder / "python"))[0] == ALL
    assert (checkout.folder / ".venv" / "bin" / "python").exists()


def test_a_second_make_waits_for_the_first(checkout: Checkout) -> None:
    if shutil.which("flock") is None:
        pytest.skip("no flock on this system")
    slow = (checkout.folder / "python").read_text().replace('cp "$0"', 'sleep 1; cp "$0"')
    (checkout.folder / "python").write_text(slow)
    words = ["make", "venv", "PYTHON=./python"]
    first = subprocess.Popen(words, cwd=checkout.folder, env=clean(), stdout=subprocess.DEVNULL)
    while not (checkout.folder / ".venv" / "bin").exists():
        assert first.poll() is None
        time.sleep(0.02)
    done = subprocess.run(words, cwd=checkout.folder, env=clean(), capture_output=True, text=True)
    assert done.returncode == first.wait() == 0 and "waiting" in done.stdout
    assert (checkout.folder / "said").read_text().count("torch==") == 1
