"""Reading and checking the columns of a StepTable; every error names the column, the rows and the remedy."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LARGEST = 1e100  # squares of larger numbers leave float64, and the spread of a group would be infinite
_SHOWN = 5  # row numbers quoted in an error message


def shown(rows: Sequence[int] | NDArray[Any]) -> str:
    """The first few row numbers as text, such as ``rows 3, 7, ... (12 in all)``."""
    numbers = ", ".join(str(int(row)) for row in rows[:_SHOWN])
    noun = "row" if len(rows) == 1 else "rows"
    return f"{noun} {numbers}" + (f", ... ({len(rows)} in all)" if len(rows) > _SHOWN else "")


def numbers(name: str, values: Sequence[Any] | NDArray[Any]) -> Floats:
    """Finite float64; ValueError for text, None, NaN, infinity and magnitudes above 1e100."""
    array = _plain(name, values, "biuf", "a number")
    result = np.array(array, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(result))
    if len(bad):
        raise ValueError(
            f"column {name!r} is {result[bad[0]]} in {shown(bad)}; it must be finite, so mend the environment or drop "
            "those trajectories."
        )
    bad = np.flatnonzero(np.abs(result) > LARGEST)
    if len(bad):
        raise ValueError(f"column {name!r} is {result[bad[0]]:g} in {shown(bad)}; scale it to at most {LARGEST:g}.")
    return result


def integers(name: str, values: Sequence[Any] | NDArray[Any]) -> Ints:
    """int64, not negative; ValueError otherwise."""
    array = np.array(_plain(name, values, "iu", "an integer"), dtype=np.int64)
    bad = np.flatnonzero(array < 0)
    if len(bad):
        raise ValueError(f"column {name!r} is {array[bad[0]]} in {shown(bad)}; it must be 0 or more.")
    return array


def flags(name: str, values: Sequence[Any] | NDArray[Any]) -> Bools:
    """bool from True/False or 0/1; ValueError otherwise."""
    array = _plain(name, values, "biuf", "True or False")
    bad = np.flatnonzero((array != 0) & (array != 1))
    if len(bad):
        raise ValueError(f"column {name!r} is {array[bad[0]]} in {shown(bad)}; give True or False (or 1 or 0).")
    return np.array(array, dtype=np.bool_)


def codes(name: str, values: Sequence[Any] | NDArray[Any]) -> tuple[Ints, list[Hashable]]:
    """Interns: int64 codes 0, 1, ... in order of first appearance, and the value behind each code."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    try:
        seen: dict[Hashable, int] = dict.fromkeys(values, 0)  # in order of first appearance
        for code, value in enumerate(seen):
            seen[value] = code
        array = np.fromiter(map(seen.__getitem__, values), dtype=np.int64, count=len(values))
    except TypeError:
        row = next(i for i, value in enumerate(values) if not _hashable(value))
        raise ValueError(
            f"column {name!r} holds a {type(values[row]).__name__} in row {row}; give text or a number instead."
        ) from None
    if None in seen:
        empty = [i for i, value in enumerate(values) if value is None]
        raise ValueError(f"column {name!r} is None in {shown(empty)}; give every row a value.")
    return array, list(seen)


def _plain(name: str, values: Sequence[Any] | NDArray[Any], kinds: str, wanted: str) -> NDArray[Any]:
    """``values`` as a one-dimensional array of one of the numpy ``kinds``."""
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different shapes
        array = np.empty(0, dtype=object)
    if len(values) == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim == 1 and array.dtype.kind in kinds:
        return array
    for row, value in enumerate(values):
        item = np.asarray(value)
        if item.ndim or item.dtype.kind not in kinds:
            raise ValueError(f"column {name!r} is {value!r} in row {row}; it must be {wanted}.")
    raise ValueError(f"column {name!r} mixes kinds of values that do not fit one another; each must be {wanted}.")


def _hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True
