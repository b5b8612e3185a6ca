"""Saved rollouts: what is written comes back, half a file never does."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from agentrl.report.rollouts import Rollouts, read_rollouts, remove_rollouts_after, rollout_files, write_rollouts

TEXTS = ["søren", "東京", "two\nlines", "", "\ud83d", 'quote " and \\', "søren"]


def some(step: int = 3) -> Rollouts:
    n = len(TEXTS)
    columns = {
        "group": [0] * n,
        "trajectory": list(range(n)),
        "turn": [0] * n,
        "reward": [0.1, 1e-17, -10.0, 1e100, 0.0, 1 / 3, 10.0],
        "state": TEXTS,
        "action": TEXTS[::-1],
        "valid": [True, False] * 3 + [True],
    }
    members = [(f"train/{k}", k) for k in range(n)]
    return Rollouts(step, "ptgpo", {"gamma": 0.95, "terms": {"episode": 1}}, columns, np.arange(n) / 7, members)


def test_what_is_written_comes_back(tmp_path: Path) -> None:
    path = write_rollouts(tmp_path, some())
    assert path == tmp_path / "rollouts" / "step_00003.json.gz"
    back = read_rollouts(path)
    assert back.columns == some().columns
    assert (back.advantages == some().advantages).all() and back.advantages.dtype == np.float64
    assert (back.step, back.method, back.settings) == (3, "ptgpo", some().settings)
    assert back.trajectories == some().trajectories


def test_the_same_rollouts_are_the_same_bytes(tmp_path: Path) -> None:
    first = write_rollouts(tmp_path / "a", some()).read_bytes()
    assert write_rollouts(tmp_path / "b", some()).read_bytes() == first


def test_steps_are_found_in_their_order_and_those_made_anew_are_removed(tmp_path: Path) -> None:
    for step in (10, 2, 100_000, 9):
        write_rollouts(tmp_path, some(step))
    (tmp_path / "rollouts" / ".step_00011.json.gz.partial").write_bytes(b"half")
    assert list(rollout_files(tmp_path)) == [2, 9, 10, 100_000]
    remove_rollouts_after(tmp_path, 9)
    assert list(rollout_files(tmp_path)) == [2, 9]
    assert rollout_files(tmp_path / "nowhere") == {}


@pytest.mark.parametrize("content", [b"", b"no gzip", gzip.compress(b"{}"), gzip.compress(b"[1, 2"), None])
def test_a_file_that_cannot_be_read_is_named(content: bytes | None, tmp_path: Path) -> None:
    path = write_rollouts(tmp_path, some())
    path.write_bytes(path.read_bytes()[:-20] if content is None else content)
    with pytest.raises(ValueError, match=r"step_00003\.json\.gz cannot be read"):
        read_rollouts(path)


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    path = write_rollouts(tmp_path, some())
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "surrogatepass").replace('"version": 1', '"version": 2')
    path.write_bytes(gzip.compress(text.encode("utf-8", "surrogatepass")))
    with pytest.raises(ValueError, match="version 2, and this agentrl reads 1"):
        read_rollouts(path)
