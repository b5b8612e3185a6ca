"""The data behind an environment: the mini catalogue, the embedded one, or a prepared store; opened once per process."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from webshop_env.catalogue import Products
from webshop_env.goalbook import Goals
from webshop_env.mapped import StoreError
from webshop_env.store import META, open_store, read_meta

CATALOGUES = ("embedded", "mini")
EMBEDDED_PRODUCTS = 6_000
EMBEDDED_SEED = 2022
CACHE_VERSION = 1  # of the generator's words and rules: raise it with any change there


def open_data(catalogue: str, data_dir: str | None) -> tuple[Products, Goals]:
    """The catalogue and its goals. StoreError (a ValueError) for a data_dir that holds no prepared store."""
    if data_dir is not None:
        return open_store(prepared_folder(Path(data_dir)))
    if catalogue == "mini":
        from webshop_env.catalogue import mini
        from webshop_env.goals import mini_goals

        return mini(), mini_goals()
    return open_store(embedded_folder())


def prepared_folder(folder: Path) -> Path:
    """The store in a data_dir: the folder itself, or `prepared` in it."""
    from webshop_env.sources import SIZES

    folder = folder.expanduser().resolve()
    if not folder.is_dir():
        raise StoreError(f"data_dir is {folder}: there is no such folder; give one that webshop_env.prepare has made.")
    inner = folder / "prepared"
    if (folder / META).is_file() or (folder / "parts").is_dir():
        return folder
    if inner.is_dir():
        return inner
    if any((folder / name).is_file() for names in SIZES.values() for name in names):
        raise StoreError(
            f"data_dir is {folder}: WebShop's files are there and not prepared yet; run "
            f"`python -m webshop_env.prepare --data-dir {folder}` once."
        )
    read_meta(folder)  # says how to prepare
    return folder


@lru_cache(maxsize=1)
def embedded_folder() -> Path:
    """The store of the embedded catalogue in the user's cache, made at first use (a few seconds).

    $WEBSHOP_ENV_CACHE, else $XDG_CACHE_HOME/webshop_env, else ~/.cache/webshop_env; a temporary folder where that cannot
    be written. Processes that come at the same time wait for the one that makes it.
    """
    name = f"embedded-{EMBEDDED_PRODUCTS}-{EMBEDDED_SEED}-{CACHE_VERSION}"
    for root in _cache_roots():
        folder = root / name
        with contextlib.suppress(StoreError):
            read_meta(folder)
            return folder
        try:
            root.mkdir(parents=True, exist_ok=True)
            with _only_one(root / f".{name}.lock"):
                with contextlib.suppress(StoreError):
                    read_meta(folder)
                    return folder
                _make_embedded(folder)
                return folder
        except OSError:
            continue
    raise StoreError("the embedded catalogue can be written nowhere: set WEBSHOP_ENV_CACHE to a folder that can.")


def _cache_roots() -> list[Path]:
    given = os.environ.get("WEBSHOP_ENV_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    user = os.getuid() if hasattr(os, "getuid") else "user"
    return [Path(given) if given else home / "webshop_env", Path(tempfile.gettempdir()) / f"webshop_env-{user}"]


def _make_embedded(folder: Path) -> None:
    from webshop_env.prepare import generated_source, prepare

    partial = folder.with_name(f".{folder.name}.{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        prepare(generated_source(EMBEDDED_PRODUCTS, EMBEDDED_SEED), partial, published=False, quiet=True)
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


@contextlib.contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Held by one process at a time; a process that dies lets go."""
    with path.open("w") as file:
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        except ImportError:  # Windows: the rename at the end keeps it whole all the same
            pass
        yield
