"""Writing so that a reader, or a crash, never sees half a file; JSON that any reader takes."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_text(path: Path, text: str) -> None:
    """Atomically: a reader sees the old file or the new one, also after a power cut."""
    partial = path.with_name(f".{path.name}.partial")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(plain(value), indent=1, default=str) + "\n")


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file; [] if there is none; a last line that a crash cut is left out."""
    lines: list[dict[str, Any]] = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            break
    return lines


def plain(value: Any) -> Any:
    """What JSON has: numpy numbers and arrays become Python's, NaN and infinities null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
