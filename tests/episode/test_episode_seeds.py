"""Seeds: fixed values for ever, independent parts, one environment seed per group."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from agentrl.episode.seeds import derive


@pytest.mark.parametrize(
    ("identity", "seed"),
    [
        ((0, 0, "train/000000", 0, 0), 6632125369822366611),
        ((7, 3, "train/000123", 5, 2), 5160950549847294134),
        ((7, -1, "validation/0é", 0, None), 6339234015650660528),
        ((7, 3, "train/000123", 5, 2, "env"), 2209473329395581699),
    ],
)
def test_golden_values(identity: tuple, seed: int) -> None:
    assert derive(*identity) == seed


def test_same_in_another_process_with_another_hash_seed() -> None:
    code = "from agentrl.episode.seeds import derive; print(derive(7, 3, 'train/000123', 5, 2))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
        env={"PYTHONHASHSEED": "99", "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert int(done.stdout) == derive(7, 3, "train/000123", 5, 2)


def test_every_part_counts_and_none_runs_into_the_next() -> None:
    parts = itertools.product((0, 1, 11), (0, 1, 11), ("train/1", "train/11", "1"), (0, 1, 11), (None, 0, 1, 11))
    seeds = [derive(*identity, stream=stream) for identity in parts for stream in ("sample", "other")]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_a_group_shares_its_environment_seed() -> None:
    seeds = {derive(1, 2, "train/0", member, turn, stream="env") for member in range(8) for turn in (None, 0, 5)}
    assert len(seeds) == 1
    assert derive(1, 3, "train/0", 0, stream="env") not in seeds
    assert derive(1, 2, "train/1", 0, stream="env") not in seeds
