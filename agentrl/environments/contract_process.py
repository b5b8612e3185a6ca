"""A fresh process that plays an environment for the contract test suite: the same pages there, and nothing left over.

What is left over is counted there because nothing else lives there: in a process of tests, Ray, torch and their
threads open and close files of their own while an environment is played.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from agentrl.environments.contract import EnvironmentPlugin, Observed, check_reset, check_step
from agentrl.environments.contract_play import COMPARED, Suite
from agentrl.environments.registry import load_environment

GRACE_S = 3.0
TIMEOUT_S = 600.0

Walks = Sequence[tuple[str, Sequence[str]]]
"""[(task id, the actions to take)]"""


def play_in_another_process(suite: Suite, walks: Walks) -> dict[str, Any]:
    """Play `walks` in one environment of a fresh process with another hash seed.

    Returns {"walks": [[task id, [[action, fields of Observed]]]], "splits": {split: [ids, fingerprint]}}.
    """
    return _ask(suite, "play", walks)


def left_after_close(suite: Suite, walks: Walks) -> dict[str, int]:
    """How many threads, child processes and open files a fresh process has more than before, after each of `walks` was
    played in an environment of its own that was then closed twice."""
    left: dict[str, int] = _ask(suite, "close", walks)
    return left


def _ask(suite: Suite, what: str, walks: Walks) -> dict[str, Any]:
    request = {
        "what": what,
        "name": suite.name,
        "options": suite.options,
        "splits": list(suite.splits),
        "seed": suite.seed,
        "walks": walks,
    }
    variables = {
        **os.environ,
        "PYTHONHASHSEED": "4712" if os.environ.get("PYTHONHASHSEED") == "4711" else "4711",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run(
        [sys.executable, "-m", "agentrl.environments.contract_process"],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        env=variables,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{suite.name}: another process could not play it: {done.stderr.strip()[-2000:]}"
    answer: dict[str, Any] = json.loads(done.stdout.rpartition(_MARK)[2])
    return answer


_MARK = "\n@@"  # the environment may have printed: the answer is what follows


def _answer() -> None:
    """The other process: plays what stdin asks for and prints what it saw."""
    request = json.load(sys.stdin)
    plugin = load_environment(request["name"])
    print(_MARK + json.dumps({"play": _play_all, "close": _left}[request["what"]](plugin, request)), flush=True)
    if request["what"] == "close":
        os._exit(0)  # a thread that was left would keep the process, and its answer is given


def _play_all(plugin: EnvironmentPlugin, request: dict[str, Any]) -> dict[str, Any]:
    environment = plugin.make(**request["options"])
    walks = [(task_id, _play(environment, request, task_id, actions)) for task_id, actions in request["walks"]]
    environment.close()
    lists = {split: plugin.tasks(split, **request["options"]) for split in request["splits"]}
    return {"walks": walks, "splits": {split: (list(tasks.ids), tasks.fingerprint) for split, tasks in lists.items()}}


def _play(environment: Any, request: dict[str, Any], task_id: str, actions: Sequence[str]) -> list[tuple[str, Any]]:
    seen = check_reset(environment.reset(seed=request["seed"], options={"task_id": task_id}), request["name"])
    pages = [("", seen)]
    for action in actions:
        if seen.ended:
            break
        seen = check_step(environment.step(action), request["name"])
        pages.append((action, seen))
    return [(action, _plain(seen)) for action, seen in pages]


def _left(plugin: EnvironmentPlugin, request: dict[str, Any]) -> dict[str, int]:
    before: dict[str, int] = {}
    # the first round is not counted: what a package loads once and keeps is no leak
    for round_, walks in enumerate((request["walks"][:1], request["walks"])):
        for task_id, actions in walks:
            environment = plugin.make(**request["options"])
            _play(environment, request, task_id, actions)
            environment.close()
            environment.close()
        gc.collect()
        if not round_:
            before = _resources()
    limit = time.monotonic() + GRACE_S  # a process or thread that was told to end may take a moment
    while any(count > before[what] for what, count in _resources().items()) and time.monotonic() < limit:
        time.sleep(0.05)
    return {what: max(0, count - before[what]) for what, count in _resources().items()}


def _resources() -> dict[str, int]:
    me = os.getpid()
    children = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as file:
                    children += int(file.read().rpartition(")")[2].split()[1]) == me
            except OSError:
                continue
    return {
        "threads": threading.active_count(),
        "child processes": children,
        "open files": len(os.listdir("/proc/self/fd")),
    }


def _plain(seen: Observed) -> dict[str, Any]:
    return {**asdict(seen), "info": {part: seen.info[part] for part in COMPARED}}


if __name__ == "__main__":
    _answer()
