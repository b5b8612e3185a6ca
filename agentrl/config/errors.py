"""The one error of a refused configuration or input, and the nearest-name helper its sentences use."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(Exception):
    """A refused configuration or input. The message names the key, the value and the remedy; exit status 2."""


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """' Did you mean a, b?' or, with nothing near, ' Known: ...' (at most 20 names)."""
    names = sorted(set(known))
    near = difflib.get_close_matches(name, names, n=count, cutoff=0.5)
    if near:
        return f" Did you mean {', '.join(near)}?"
    more = "" if len(names) <= 20 else f" and {len(names) - 20} more"
    return f" Known: {', '.join(names[:20])}{more}." if names else ""
