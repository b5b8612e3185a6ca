"""Keywords of the methods: typed, checked, refused with the nearest name when unknown."""

from __future__ import annotations

import dataclasses
import difflib
import math
import numbers
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints


class Range(NamedTuple):
    """Numbers from ``low`` to ``high``, both included (``above``: low itself is not); ``none``: None is fine too."""

    low: float
    high: float
    above: bool = False
    none: bool = False

    def __str__(self) -> str:
        text = f"a number {'above' if self.above else 'of at least'} {self.low:g}"
        text += f" and at most {self.high:g}" if self.high < math.inf else ""
        return text + (", or null" if self.none else "")


class Field(NamedTuple):
    """One keyword: the type of its value, its default, and what is allowed (choices, a Range, or None: anything)."""

    type: type
    default: Any
    allowed: tuple[Any, ...] | Range | None


def number(default: Any, low: float = 0.0, high: float = math.inf, above: bool = False) -> Any:
    """A dataclass field for a number from ``low`` to ``high``."""
    return dataclasses.field(default=default, metadata={"range": (low, high, above)})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What every group method takes. A method with more keywords subclasses this (see gigpo.py).

    gamma: discount of the return-to-go. The episode return is never discounted, so a method that uses only that one
      (grpo) accepts gamma and does not depend on it.
    norm_mode: mean_std, (x - mean) / (std + norm_eps), or mean, x - mean.
    norm_ddof: 1 divides by n - 1, 0 by n. norm_floor: a group whose std is below it gets exactly 0.
    singleton: what a group of one gets: zero, or raw (its own value, as the public GiGPO code).
    stat_unit: what counts once in a group's mean and std: each trajectory, or each step (long ones weigh more).
    invalid_action_penalty: taken off the reward of every row with valid=False.
    penalty_mode: global, before returns are formed; local, off that row's score and return only, afterwards.
    preset: verl_agent sets every switch as the public GiGPO code has it; keywords given beside it win.
    """

    gamma: float = number(1.0, 0.0, 1.0)
    norm_mode: Literal["mean_std", "mean"] = "mean_std"
    norm_ddof: int = number(1, 0, 1)
    norm_eps: float = number(1e-6)
    norm_floor: float = number(1e-5)
    singleton: Literal["zero", "raw"] = "zero"
    stat_unit: Literal["trajectory", "step"] = "trajectory"
    invalid_action_penalty: float = number(0.0)
    penalty_mode: Literal["global", "local"] = "global"
    preset: Literal["none", "verl_agent"] | None = None

    presets: ClassVar[dict[str, dict[str, Any]]] = {
        "verl_agent": {
            "norm_ddof": 1,
            "norm_eps": 1e-6,
            "norm_floor": 0.0,
            "singleton": "raw",
            "stat_unit": "step",
            "penalty_mode": "local",
        }
    }


S = TypeVar("S", bound=Settings)


_KNOWN: dict[type[Settings], dict[str, Field]] = {}  # reading the annotations takes longer than GRPO itself


def _fields(kind: type[Settings]) -> dict[str, Field]:
    if kind not in _KNOWN:
        hints = get_type_hints(kind)
        _KNOWN[kind] = {f.name: _field(hints[f.name], f) for f in dataclasses.fields(kind)}
    return _KNOWN[kind]


def fields(kind: type[Settings]) -> dict[str, Field]:
    """Keyword -> (type, default, allowed), for a schema that validates without computing anything."""
    return dict(_fields(kind))


def make(kind: type[S], method: str, given: Mapping[str, Any]) -> S:
    """Settings of ``method`` from keywords; ValueError for an unknown keyword or a value that is not allowed."""
    known = _fields(kind)
    for name, value in given.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
            raise ValueError(
                f"advantage {method!r} has no setting {name!r}; nearest: {near[0]!r} (it takes {', '.join(known)})."
            )
        _check(method, name, value, known[name])
    preset = given.get("preset")
    return kind(**(kind.presets.get(preset, {}) if preset else {}) | dict(given))


def _field(hint: Any, f: dataclasses.Field[Any]) -> Field:
    kinds = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
    none = type(None) in kinds
    main = next(kind for kind in kinds if kind is not type(None))
    if get_origin(main) is Literal:
        return Field(str, f.default, get_args(main) + ((None,) if none else ()))
    if main is bool:
        return Field(bool, f.default, (True, False))
    if "range" not in f.metadata:
        return Field(main, f.default, None)
    low, high, above = f.metadata["range"]
    return Field(main, f.default, Range(low, high, above, none))


def _check(method: str, name: str, value: Any, field: Field) -> None:
    allowed = field.allowed
    if allowed is None:
        return
    if isinstance(allowed, Range):
        kind = numbers.Integral if field.type is int else numbers.Real
        fits = isinstance(value, kind) and not isinstance(value, bool)
        fits = fits and math.isfinite(value) and allowed.low <= value <= allowed.high
        fits = fits and not (allowed.above and value == allowed.low)
        fits = fits or (value is None and allowed.none)
        text = str(allowed).replace("a number", "an integer") if field.type is int else str(allowed)
    else:
        fits = any(value is choice or (isinstance(choice, str) and value == choice) for choice in allowed)
        text = "one of " + ", ".join("null" if choice is None else str(choice) for choice in allowed)
    if not fits:
        raise ValueError(f"setting {name!r} of advantage {method!r} is {value!r}; it must be {text}.")
