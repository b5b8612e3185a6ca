from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fast_downward", reason="ALFWorld's engine is not installed: make engines")


@pytest.fixture(autouse=True, scope="session")
def no_public_data(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The tests play generated games, and `import alfworld` makes no folder in the user's home."""
    patch = pytest.MonkeyPatch()
    patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    patch.setenv("ALFWORLD_DATA", "")
    yield
    patch.undo()


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small generated games as ALFWorld's own files."""
    from alfworld_env.__main__ import main

    folder = tmp_path_factory.mktemp("alfworld_data")
    assert main(["export", str(folder), "--size", "small"]) == 0
    return folder
