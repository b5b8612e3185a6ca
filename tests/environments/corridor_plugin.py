"""A small text environment for the tests: walk a corridor to the door. Its options switch real faults on.

Options (each names a folder or file, so that a fault can be switched from outside the server process):
    faults: a folder. Before each step the environment looks for a file there called `ACTION` (crash, hang, raise or
        stop); if it is there, the file is removed and the fault happens. `ACTION.always` stays.
    slow: seconds that a reset takes.
    unreadable: info holds an object that cannot be loaded in another process.
    drift: after a replay the pages read differently (the observation holds the process id).
"""

from __future__ import annotations

import os
import random
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

env_id = "Corridor-v0"
prompts = {"compact": "goal {task} past {action_history} now {observation}"}
LENGTH = 8


@dataclass(frozen=True)
class Tasks:
    ids: list[str]
    fingerprint: str


def tasks(split: str, **options: Any) -> Tasks:
    counts = {"train": 20, "validation": 5, "test": 5}
    if split not in counts:
        raise ValueError(f"split={split}: there are {', '.join(counts)}")
    return Tasks([f"{split}/{index}" for index in range(counts[split])], "corridor-1")


def make(**options: Any) -> CorridorEnv:
    return CorridorEnv(**options)


class Unreadable:
    def __reduce__(self) -> Any:
        return int, ("no number",)


class CorridorEnv:
    def __init__(
        self,
        faults: str | None = None,
        drift: bool = False,
        log: str | None = None,
        slow: float = 0.0,
        unreadable: bool = False,
    ) -> None:
        self.unreadable = unreadable
        self.slow = slow
        self.faults = Path(faults) if faults else None
        self.drift = drift
        self.log = Path(log) if log else None
        self.note("make")

    def note(self, what: str) -> None:
        if self.log:
            with self.log.open("a") as file:
                file.write(f"{os.getpid()} {what}\n")

    def reset(self, *, seed: int, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        self.task = options["task_id"]
        self.note(f"reset {self.task}")
        self.fault("reset")
        time.sleep(self.slow)
        rng = random.Random(f"{self.task} {seed}")
        self.door, self.place, self.steps = rng.randrange(2, LENGTH), 0, 0
        self.signs = [rng.choice(["oak", "elm", "ash"]) for _ in range(LENGTH)]
        return self.page(), self.info(True, True)

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.note(f"step {self.task} {action}")
        self.fault(self.task.replace("/", "_"))
        before = self.place
        self.steps += 1
        if action == "right":
            self.place = min(LENGTH - 1, self.place + 1)
        elif action == "left":
            self.place = max(0, self.place - 1)
        opened = action == "open" and self.place == self.door
        valid = action in ("left", "right", "open")
        info = self.info(valid, opened or self.place != before)
        info["success"], info["score"] = opened, 1.0 if opened else 0.0
        if self.unreadable:
            info["extra"] = Unreadable()
        return self.page(), float(opened), opened, False, info

    def page(self) -> str:
        sign = self.signs[self.place] + (f" {os.getpid()}" if self.drift else "")
        return f"place {self.place}, a sign reads {sign}" + (", here is the door" if self.place == self.door else "")

    def info(self, valid: bool, effective: bool) -> dict[str, Any]:
        return {
            "task": f"open the door of {self.task}",
            "state_key": f"{self.task} {self.place}",
            "admissible_actions": ["left", "right", "open"],
            "success": False,
            "score": 0.0,
            "task_type": "door",
            "action_valid": valid,
            "action_effective": effective,
        }

    def close(self) -> None:
        self.note("close")

    def fault(self, where: str) -> None:
        if self.faults is None:
            return
        for kind in ("crash", "hang", "raise", "stop"):
            once = self.faults / f"{where}.{kind}"
            always = self.faults / f"{where}.{kind}.always"
            if once.exists() or always.exists():
                once.unlink(missing_ok=True)
                self.note(f"fault {kind} {where}")
                if kind == "crash":
                    os._exit(1)
                if kind == "hang":
                    time.sleep(600)
                if kind == "stop":  # even the process's other threads stand still
                    os.kill(os.getpid(), signal.SIGSTOP)
                raise RuntimeError("the lamp went out")
