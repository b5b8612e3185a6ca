"""These tests need the engine and a Java; without them they say what is missing."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = _missing()
    for item in items:
        if reason and "tests/scienceworld" in item.path.as_posix() and "needs_engine" in item.fixturenames:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def needs_engine() -> None:
    """Names a test that starts the engine; see above."""


def _missing() -> str:
    try:
        from scienceworld_env.java import EngineMissing, JavaError, find_jar, find_java
    except ImportError as error:
        return f"the package scienceworld-env cannot be imported: {error}"
    try:
        find_java(), find_jar()
    except (EngineMissing, JavaError) as error:
        return str(error)
    return ""
