"""These tests need a Java, which no package of the lock brings: without one they are skipped, saying so. A missing engine
fails them, because `make test` installs it."""

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
    from scienceworld_env.java import JavaError, find_java

    try:
        find_java()
    except JavaError as error:
        return str(error)
    return ""
