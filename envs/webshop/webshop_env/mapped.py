"""Arrays and texts in mapped files: opened in no time, shared by all processes of a machine, checked for belonging.

A file begins with a header of 128 bytes that names the data it was made from, so that a file of another catalogue is
noticed before anything is looked up in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

HEADER = 128
NOT_YET = "-" * 32  # the fingerprint in a file that is being written


class StoreError(ValueError):
    """A prepared store is missing, damaged or of other data; the message names the file and the remedy."""


def create(path: Path, size: int, dtype: Any) -> NDArray[Any]:
    """A new mapped array of `size` elements, to be filled; `stamp` it when the data's fingerprint is known."""
    kind = np.dtype(dtype)
    with path.open("wb") as file:
        file.write(_header(NOT_YET, kind, size))
        file.truncate(HEADER + size * kind.itemsize)
    if not size:
        return np.zeros(0, dtype=kind)
    return np.memmap(path, dtype=kind, mode="r+", offset=HEADER, shape=(size,))


def write(path: Path, values: NDArray[Any]) -> None:
    array = create(path, len(values), values.dtype)
    array[:] = values
    if isinstance(array, np.memmap):
        array.flush()


def stamp(path: Path, fingerprint: str) -> None:
    """Say which data a file was made from."""
    with path.open("r+b") as file:
        header = json.loads(file.read(HEADER))
        file.seek(0)
        file.write(_header(fingerprint, np.dtype(header["dtype"]), header["size"]))


def open_array(path: Path, fingerprint: str) -> NDArray[Any]:
    """A mapped array, read only. StoreError for a file that is missing, cut off or of other data."""
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(HEADER))
        kind, size = np.dtype(header["dtype"]), int(header["size"])
        of = header["of"]
    except FileNotFoundError:
        raise StoreError(f"{path}: the file is missing; prepare the data again.") from None
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{path}: it is not a file of a prepared store; prepare the data again.") from None
    if of != fingerprint:
        raise StoreError(
            f"{path}: it was made from other data (fingerprint {of}, the catalogue has {fingerprint}); prepare the data again."
        )
    if path.stat().st_size != HEADER + size * kind.itemsize:
        raise StoreError(
            f"{path}: it has {path.stat().st_size} bytes instead of {HEADER + size * kind.itemsize}; prepare the data again."
        )
    if not size:
        return np.zeros(0, dtype=kind)
    # a plain array over the map: numpy's own class for maps is slow to slice
    return np.asarray(np.memmap(path, dtype=kind, mode="r", offset=HEADER, shape=(size,)))


def _header(fingerprint: str, kind: np.dtype[Any], size: int) -> bytes:
    text = json.dumps({"of": fingerprint, "dtype": kind.str, "size": size})
    return text.ljust(HEADER - 1).encode("ascii") + b"\n"


class Texts(Sequence[str]):
    """Texts one after another in `NAME.bin`, where each begins in `NAME_starts.bin`."""

    def __init__(self, folder: Path, name: str, fingerprint: str) -> None:
        self._bytes = open_array(folder / f"{name}.bin", fingerprint)
        self._starts = open_array(folder / f"{name}_starts.bin", fingerprint)
        self._view = memoryview(self._bytes if len(self._bytes) else b"")  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> list[str]: ...
    def __getitem__(self, number: int | slice) -> str | list[str]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(len(self)))]
        return self.raw(number).decode("utf-8", "surrogatepass")

    def raw(self, number: int) -> bytes:
        return bytes(self._view[int(self._starts[number]) : int(self._starts[number + 1])])


class SortedTerms(Mapping[str, tuple[int, int, float]]):
    """The spans of an index by term, found by halving: no dictionary of a million words in every process."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self._terms = Texts(folder, "terms", fingerprint)
        self._starts = open_array(folder / "postings_starts.bin", fingerprint)
        self._largest = open_array(folder / "largest.bin", fingerprint)
        self._found = lru_cache(maxsize=4096)(self._find)

    def __len__(self) -> int:
        return len(self._terms)

    def __iter__(self) -> Iterator[str]:
        return iter(self._terms)

    def __getitem__(self, term: str) -> tuple[int, int, float]:
        found = self._found(term)
        if found is None:
            raise KeyError(term)
        return found

    def _find(self, term: str) -> tuple[int, int, float] | None:
        wanted = term.encode("utf-8", "surrogatepass")
        low, high = 0, len(self._terms)
        while low < high:
            middle = (low + high) // 2
            if self._terms.raw(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(self._terms) or self._terms.raw(low) != wanted:
            return None
        return int(self._starts[low]), int(self._starts[low + 1]), float(self._largest[low])
