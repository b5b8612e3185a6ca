"""What can go wrong with environment servers, and how it is told."""

from __future__ import annotations


class TrajectoryLost(Exception):
    """A trajectory cannot go on; it must be dropped and counted, never scored. `reason` says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class EnvironmentServerError(RuntimeError):
    """Environment servers cannot be had at all: the run cannot go on. The message says why."""


class ServerGone(Exception):
    """The server died or hung while (or before) a call ran. `culprit`: it was surely working on this call."""

    def __init__(self, reason: str, culprit: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.culprit = culprit


def is_death(error: BaseException) -> bool:
    from ray import exceptions

    return isinstance(
        error,
        exceptions.RayActorError
        | exceptions.WorkerCrashedError
        | exceptions.OutOfMemoryError
        | exceptions.NodeDiedError,
    )


def first_cause(error: BaseException) -> str:
    """The line of Ray's long message that says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    last = lines[-1] if lines else type(error).__name__
    return last if "Error" in last.split(":")[0] else (lines[0] if lines else last)
