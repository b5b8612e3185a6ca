"""Normalisation inside groups: the one place where means and spreads are taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .columns import Floats, Ints
from .settings import Settings

# A spread below this share of the values themselves is round-off of their sums, whatever norm_floor says.
ROUND_OFF = 1e-13


@dataclass(frozen=True)
class GroupStats:
    """Centre and scale of every group. ``apply`` gives (x - centre) / scale, exactly 0 where scale is infinite.

    The mean is kept as ``anchor + shift``, anchor being a member of the group: a group of equal values then has
    shift and spread exactly 0 at any magnitude, and a constant added to a large group costs no digits.
    """

    anchor: Floats  # [groups]
    shift: Floats  # [groups]
    scale: Floats  # [groups] std + eps, or 1 (mean only), or infinity (no signal)

    def centred(self, values: Floats, groups: Ints) -> Floats:
        """x - mean of its group; shapes [n], [n] -> [n]."""
        return (values - self.anchor[groups]) - self.shift[groups]

    def apply(self, values: Floats, groups: Ints) -> Floats:
        """(x - mean) / scale; shapes [n], [n] -> [n]."""
        return self.centred(values, groups) / self.scale[groups]


def group_stats(values: Floats, groups: Ints, count: int, s: Settings, singleton: str = "zero") -> GroupStats:
    """Mean and spread of ``values`` [n] in each of ``count`` groups, ``groups`` [n] being their codes.

    norm_mode ``mean_std``: (x - mean) / (std + norm_eps), std with norm_ddof; ``mean``: x - mean.
    A group of one, and a group whose std is 0 or below norm_floor, gets exactly 0 in either mode. ``singleton=raw``
    leaves a group of one as it is, mean 0 and std 1 (as the public GiGPO code does for episodes).
    """
    size = np.bincount(groups, minlength=count)
    anchor = np.zeros(count)
    anchor[groups[::-1]] = values[::-1]  # the first member of each group: the last write wins
    offset = values - anchor[groups]
    shift = np.bincount(groups, weights=offset, minlength=count) / np.maximum(size, 1)
    square = np.bincount(groups, weights=(offset - shift[groups]) ** 2, minlength=count)
    spread = np.sqrt(square / np.maximum(size - s.norm_ddof, 1))
    floor = np.maximum(s.norm_floor, ROUND_OFF * np.abs(anchor))
    dead = (spread == 0) | (spread < floor)  # a group of one has spread 0
    scale = np.where(dead, np.inf, spread + s.norm_eps if s.norm_mode == "mean_std" else 1.0)
    if singleton == "raw":
        alone = size == 1
        anchor, shift = np.where(alone, 0.0, anchor), np.where(alone, 0.0, shift)
        scale = np.where(alone, 1.0 + s.norm_eps if s.norm_mode == "mean_std" else 1.0, scale)
    return GroupStats(anchor, shift, scale)


def normalise(values: Floats, groups: Ints, count: int, s: Settings, singleton: str = "zero") -> Floats:
    """``values`` normalised inside their groups; shapes [n], [n] -> [n]."""
    return group_stats(values, groups, count, s, singleton).apply(values, groups)
