"""The environment server: one process that holds many environments of one package.

`EnvironmentHost` is the plain object; `server_actor()` gives the Ray actor class around it. Calls run one at a time,
because environment libraries are often not safe across threads; more servers give more cores. Ray never restarts or
retries anything here (max_restarts=0): the pool does, since only it knows what to replay.
"""

from __future__ import annotations

import gc
import os
import signal
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from agentrl.environments.contract import ContractError, Observed, check_reset, check_step
from agentrl.environments.registry import load_environment


@dataclass(frozen=True)
class Process:
    """A process that cannot be mistaken for a later one with the same pid."""

    node: str  # Ray's node id
    pid: int
    born: str  # start time, in clock ticks since boot

    def kill(self) -> None:
        """SIGKILL, if it is on this machine and still the same process. Ray cannot end a process that stands still."""
        if self.node == _node() and _born(self.pid) == self.born:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def this_process() -> Process:
    return Process(_node(), os.getpid(), _born(os.getpid()))


def _node() -> str:
    import ray

    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def _born(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat") as file:
            # the second field is the name, in brackets, and may hold blanks
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


@dataclass(frozen=True)
class Raised:
    """An exception that the environment itself raised: kept as text, because its class may not load elsewhere."""

    error: str
    trace: str
    contract: bool = False  # the environment breaks the contract: trying again cannot help


class EnvironmentHost:
    """Environments of one plugin in numbered slots, made when first used and used again by the next trajectory.

    Args:
        name: of the environment, as in the registry.
        options: handed to the plugin's `make`.
        renew_after: an environment is closed and made anew after this many resets (None: never); a bound on the memory
            of environments that leak.
    """

    def __init__(self, name: str, options: dict[str, Any], renew_after: int | None = None) -> None:
        self.name = name
        self.options = options
        self.renew_after = renew_after
        self.plugin = load_environment(name)
        self._environments: dict[int, Any] = {}
        self._resets: dict[int, int] = {}

    def ready(self) -> dict[str, Any]:
        """Answers when the package is imported and one environment can be made."""
        self._environments.setdefault(0, self.plugin.make(**self.options))
        return {"env_id": self.plugin.env_id, "process": this_process()}

    def reset(self, slot: int, task_id: str, seed: int) -> Observed | Raised:
        """Start task `task_id` in `slot`. Never raises what the environment raises."""
        try:
            if self.renew_after is not None and self._resets.get(slot, 0) >= self.renew_after:
                self._discard(slot)
            if slot not in self._environments:
                self._environments[slot] = self.plugin.make(**self.options)
            self._resets[slot] = self._resets.get(slot, 0) + 1
            return check_reset(self._environments[slot].reset(seed=seed, options={"task_id": task_id}), self.name)
        except Exception as error:
            return self._raised(slot, error)

    def step(self, slot: int, action: str) -> Observed | Raised:
        """One action in `slot`. Never raises what the environment raises."""
        try:
            return check_step(self._environments[slot].step(action), self.name)
        except Exception as error:
            return self._raised(slot, error)

    def stats(self) -> dict[str, int]:
        """Environments alive, resets since each was made, resident memory in bytes."""
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        return {
            "environments": len(self._environments),
            "resets": sum(self._resets.values()),
            "rss_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        }

    def close(self) -> None:
        """Close every environment; a close that fails does not keep the others open."""
        for slot in list(self._environments):
            self._discard(slot)
        gc.collect()

    def _raised(self, slot: int, error: Exception) -> Raised:
        # its state is unknown now: the next reset of this slot gets a fresh environment
        self._discard(slot)
        return Raised(
            f"{type(error).__name__}: {error}",
            "".join(traceback.format_exception(error)),
            isinstance(error, ContractError),
        )

    def _discard(self, slot: int) -> None:
        environment = self._environments.pop(slot, None)
        self._resets.pop(slot, None)
        if environment is not None:
            try:
                environment.close()
            except Exception:
                traceback.print_exc()


def server_actor() -> Any:
    """The Ray actor class of EnvironmentHost (Ray is imported here, not with the package)."""
    import ray

    return ray.remote(max_restarts=0, max_task_retries=0, num_gpus=0)(EnvironmentHost)
