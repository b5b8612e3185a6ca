"""What a method saw and gave: numbers for the driver's log."""

from __future__ import annotations

from typing import Any

import numpy as np

from .columns import Floats
from .table import StepTable

NO_SIGNAL = 1e-9  # an advantage smaller than this moves nothing


def describe(table: StepTable, advantage: Floats) -> dict[str, Any]:
    """Plain floats, ints and lists.

    groups, group_sizes (trajectories per group), group_size_mean/min/max, state_group_coverage (share of rows whose
    state other rows of the task share), state_group_size_mean, zero_advantage_share (of rows), zero_signal_groups
    and zero_signal_group_share (groups in which every row has advantage 0), advantage_mean/std/min/max.
    """
    sizes = np.bincount(table.trajectory_group, minlength=table.groups)
    states = np.bincount(table.state_group, minlength=table.state_groups)
    silent = np.abs(advantage) < NO_SIGNAL
    speaking = np.bincount(table.group, weights=~silent, minlength=table.groups)
    zero_groups = int(np.count_nonzero(speaking == 0))
    some = len(table) > 0
    return {
        "rows": len(table),
        "trajectories": table.trajectories,
        "groups": table.groups,
        "group_sizes": sizes.tolist(),
        "group_size_mean": float(sizes.mean()) if some else 0.0,
        "group_size_min": int(sizes.min()) if some else 0,
        "group_size_max": int(sizes.max()) if some else 0,
        "state_group_coverage": float(np.mean(states[table.state_group] > 1)) if some else 0.0,
        "state_group_size_mean": float(states.mean()) if some else 0.0,
        "zero_advantage_share": float(silent.mean()) if some else 0.0,
        "zero_signal_groups": zero_groups,
        "zero_signal_group_share": zero_groups / table.groups if some else 0.0,
        "advantage_mean": float(advantage.mean()) if some else 0.0,
        "advantage_std": float(advantage.std()) if some else 0.0,
        "advantage_min": float(advantage.min()) if some else 0.0,
        "advantage_max": float(advantage.max()) if some else 0.0,
    }
