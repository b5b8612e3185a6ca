"""ScienceWorld's Java process: shared, small, and never left behind, whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scienceworld_env import plugin
from scienceworld_env.jvm import EngineGone, running

from agentrl.environments.contract import Observed
from agentrl.environments.server import EnvironmentHost, Raised

pytestmark = pytest.mark.usefixtures("needs_engine")

TASK = "train/boil/000003"


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, within_s: float = 20.0) -> bool:
    limit = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < limit:
        time.sleep(0.05)
    return not alive(pid)


def resident_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def java_pid() -> int:
    jvm = running()
    assert jvm is not None
    return jvm.process.pid


def test_environments_share_one_java_which_ends_with_the_last() -> None:
    assert running() is None
    first, second = plugin.make(), plugin.make()
    assert running() is None  # nothing is started before it is needed
    first.reset(seed=0, options={"task_id": TASK})
    pid = java_pid()
    second.reset(seed=0, options={"task_id": TASK})
    assert java_pid() == pid
    first.close()
    assert second.step("look around")[4]["action_valid"] and alive(pid)
    second.close()
    second.close()
    assert running() is None and not Path(f"/proc/{pid}").exists()
    first.reset(seed=0, options={"task_id": TASK})  # a closed environment can be used again
    assert java_pid() != pid
    first.close()


def test_a_killed_java_is_told_and_the_next_reset_has_a_new_one() -> None:
    env, other = plugin.make(), plugin.make()
    page, info = env.reset(seed=0, options={"task_id": TASK})
    other.reset(seed=0, options={"task_id": TASK})
    pid = java_pid()
    os.kill(pid, signal.SIGKILL)
    with pytest.raises(
        EngineGone, match=rf"the Java process {pid} of ScienceWorld has ended \(exit code -9\): call reset"
    ):
        env.step("look around")
    assert env.reset(seed=0, options={"task_id": TASK}) == (page, info)
    assert java_pid() != pid and not Path(f"/proc/{pid}").exists()
    with pytest.raises(EngineGone, match="has ended"):
        other.step("look around")  # of the old process, which its own step has not seen end
    other.close()
    assert env.step("look around")[4]["action_valid"]
    new = java_pid()
    env.close()
    assert gone(new) and running() is None


def test_an_environment_server_goes_on_after_its_java_was_killed() -> None:
    """What a server actor holds: the fault is told once, and the replay meets the same world."""
    host = EnvironmentHost("scienceworld_env.plugin:", {"tasks": "boil"})
    try:
        first, step = host.reset(0, TASK, 5), host.step(0, "teleport to kitchen")
        os.kill(java_pid(), signal.SIGKILL)
        raised = host.step(0, "open cupboard")
        assert isinstance(raised, Raised) and "EngineGone: the Java process" in raised.error and not raised.contract
        assert host.reset(0, TASK, 5) == first and host.step(0, "teleport to kitchen") == step
        assert isinstance(host.step(0, "open cupboard"), Observed)
    finally:
        host.close()
    assert running() is None


PARENT = """
import os, sys, time
from scienceworld_env import jvm, plugin
env = plugin.make()
env.reset(seed=0, options={"task_id": "train/boil/000003"})
print(jvm.running().process.pid, flush=True)
if "fork" in sys.argv and not os.fork():
    time.sleep(25)
    os._exit(0)
if "exit" in sys.argv:
    sys.exit()
time.sleep(60)
"""


@pytest.mark.parametrize("how", ["kill", "fork", "exit"])
def test_java_does_not_outlive_its_parent(how: str) -> None:
    """Killed; killed while a fork of it still holds the pipe; ended without closing the environment."""
    before = set(Path("/tmp").glob("scienceworld-*"))
    parent = subprocess.Popen([sys.executable, "-c", PARENT, how], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    if how != "exit":
        assert alive(pid)
        parent.kill()
    parent.wait(30)
    parent.stdout.close()
    assert gone(pid)
    assert set(Path("/tmp").glob("scienceworld-*")) <= before


def test_memory_stays_small_and_does_not_grow() -> None:
    """One Java of 256 MB heap for many worlds; without care each of them would keep 10 MB."""
    environments = [plugin.make(tasks="find-plant") for _ in range(24)]
    try:
        sizes = []
        for round_ in range(2):
            for number, env in enumerate(environments):
                env.reset(seed=0, options={"task_id": f"train/find-plant/{(24 * round_ + number) % 150:06d}"})
            jvm = running()
            assert jvm is not None
            jvm.gateway.jvm.java.lang.System.gc()
            runtime = jvm.gateway.jvm.java.lang.Runtime.getRuntime()
            sizes.append((runtime.totalMemory() - runtime.freeMemory()) / 2**20)
        assert sizes[0] < 60 and sizes[1] < sizes[0] + 5, f"heap in use: {sizes} MB"
        assert resident_mb(java_pid()) < 330
    finally:
        for env in environments:
            env.close()
    assert running() is None
