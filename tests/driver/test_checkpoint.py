"""Checkpoints: atomic, verified, the last good one kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentrl.config import ConfigError
from agentrl.driver.checkpoint import checkpoints, latest, load_driver_state, problem, save_checkpoint


def actor(path: Path) -> None:
    path.mkdir()
    (path / "weights.bin").write_bytes(b"weights")


def test_old_ones_go_only_when_newer_ones_stand(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save_checkpoint(tmp_path, step, {"step": step}, actor, keep=2)
    assert [p.name for p in checkpoints(tmp_path)] == ["step_2", "step_3"]
    assert load_driver_state(latest(tmp_path)) == {"step": 3} and problem(latest(tmp_path)) is None


def test_a_crash_while_writing_leaves_the_last_good_one(tmp_path: Path) -> None:
    save_checkpoint(tmp_path, 1, {"step": 1}, actor, keep=1)

    def crash(path: Path) -> None:
        actor(path)
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(tmp_path, 2, {"step": 2}, crash, keep=1)
    assert latest(tmp_path).name == "step_1"
    save_checkpoint(tmp_path, 2, {"step": 2}, actor, keep=1)  # what the crash left is no hindrance
    assert latest(tmp_path).name == "step_2"


@pytest.mark.parametrize("damage", ["missing", "longer", "changed"])
def test_damage_is_named_and_the_good_one_offered(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"step": step}, actor, keep=2)
    file = tmp_path / "checkpoints" / "step_2" / "actor" / "weights.bin"
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(b"weights+" if damage == "longer" else b"WEIGHTS")
    with pytest.raises(ConfigError, match=r"step_2 is corrupt: actor/weights.bin .*last good one is step_1"):
        latest(tmp_path)


def test_nothing_to_resume(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no checkpoint"):
        latest(tmp_path)
