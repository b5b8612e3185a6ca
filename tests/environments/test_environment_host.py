"""The environment host (what a server actor holds), and the board of waits."""

from __future__ import annotations

import asyncio
from pathlib import Path

from agentrl.environments.contract import Observed
from agentrl.environments.server import EnvironmentHost, Raised
from agentrl.environments.waits import Waits, watch


def lines(log: Path, word: str) -> int:
    return sum(word in line for line in log.read_text().splitlines())


def test_slots_are_used_again_and_closed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = EnvironmentHost("corridor_plugin:", {"log": str(log)})
    for trajectory in range(12):
        for slot in range(3):
            assert isinstance(host.reset(slot, f"train/{trajectory}", 1), Observed)
            assert isinstance(host.step(slot, "right"), Observed)
    assert lines(log, "make") == 3
    assert host.stats()["environments"] == 3
    assert host.stats()["resets"] == 36
    host.close()
    host.close()
    assert lines(log, "close") == 3
    assert host.stats()["environments"] == 0


def test_an_environment_that_raised_is_replaced(tmp_path: Path) -> None:
    log, faults = tmp_path / "log", tmp_path / "faults"
    faults.mkdir()
    host = EnvironmentHost("corridor_plugin:", {"log": str(log), "faults": str(faults)})
    first = host.reset(0, "train/0", 1)
    host.reset(1, "train/1", 1)
    (faults / "train_0.raise").touch()
    raised = host.step(0, "right")
    assert isinstance(raised, Raised)
    assert raised.error == "RuntimeError: the lamp went out"
    assert "corridor_plugin.py" in raised.trace
    assert not raised.contract
    assert isinstance(host.step(1, "right"), Observed)  # the others go on
    assert host.reset(0, "train/0", 1) == first
    assert (lines(log, "make"), lines(log, "close")) == (3, 1)
    host.close()


def test_a_broken_contract_is_told_apart() -> None:
    host = EnvironmentHost("broken_plugins:lacks_key", {})
    raised = host.reset(0, "train/0", 1)
    assert isinstance(raised, Raised)
    assert raised.contract
    assert "lacks 'state_key'" in raised.error


def test_renewal_bounds_what_an_environment_keeps(tmp_path: Path) -> None:
    log = tmp_path / "log"
    host = EnvironmentHost("corridor_plugin:", {"log": str(log)}, renew_after=4)
    for _ in range(9):
        host.reset(0, "train/0", 1)
    assert (lines(log, "make"), lines(log, "close")) == (3, 2)
    host.close()


def test_waits_name_who_and_what() -> None:
    waits = Waits()
    assert waits.describe() == ""
    with waits.on("task a", "generate"), waits.on("task b", "step in environment server 0"):
        assert len(waits) == 2
        assert "task a waits for generate since 0 s; task b waits for step in environment server 0" in waits.describe()
        assert waits.describe(most=1).endswith("; and 1 more")
        assert waits.describe(seconds=5) == ""
    assert len(waits) == 0


def test_watchdog_reports_a_stall_and_only_a_stall() -> None:
    async def main() -> list[str]:
        waits, said = Waits(), list[str]()
        watchdog = asyncio.create_task(watch(waits, 0.6, said.append))
        for _ in range(15):  # each wait is short: no stall
            with waits.on("task a", "generate"):
                await asyncio.sleep(0.05)
        assert said == []
        with waits.on("task b", "a free environment slot"):
            await asyncio.sleep(1.4)
        watchdog.cancel()
        return said

    said = asyncio.run(main())
    assert said
    assert all("task b waits for a free environment slot" in text for text in said)
