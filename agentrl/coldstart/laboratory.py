"""ScienceWorld for the cold start: somebody who finds a thing, a living one or an animal, and puts it into a box.

What has been focused on and picked up is read from the last actions, which is what the prompt shows too. Tasks are the
engine's 4-1, 4-2 and 4-4, whose steps earn parts of the score.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentrl.coldstart.sft import SftSettings
from agentrl.coldstart.tokenizer import build_tokenizer
from agentrl.coldstart.world import Decision, Stage, World

TASKS = ("find-living-thing", "find-non-living-thing", "find-animal")
ROOMS = ("kitchen", "living room", "outside", "greenhouse", "workshop", "hallway", "bedroom", "bathroom", "foundry",
         "art studio")  # fmt: skip
THOUGHTS = ("go", "look", "focus", "take", "bring", "drop")
GOAL = re.compile(r"to the (?P<box>\w+ box) in the (?P<room>[a-z ]+)\.")
LINE = re.compile(r"^\t(?:an? )?([^\n(.,]+)", re.MULTILINE)
NOT_MOVED = ("agent", "substance", "the ground", "box", "door", "fire pit", "fountain")


@dataclass(frozen=True)
class Slips:
    """Probabilities, each drawn anew whenever the slip could happen.

    room: goes to a wrong room. hasty: names a thing without having looked. wrong: focuses on anything that is seen.
    box: brings it to another box. stray: takes a step of another stage. malformed: breaks the format.
    """

    room: float = 0.0
    hasty: float = 0.0
    wrong: float = 0.0
    box: float = 0.0
    stray: float = 0.0
    malformed: float = 0.0


CAREFUL = Slips()
WANDER = Slips(room=0.15, hasty=0.05, wrong=0.1, box=0.15, stray=0.1, malformed=0.02)
CLUMSY = Slips(room=0.35, hasty=0.2, wrong=0.35, box=0.35, stray=0.2, malformed=0.05)


class Finder:
    """Decides on the running episode from what the prompt shows."""

    def __init__(self, task: str, rng: random.Random) -> None:
        found = GOAL.search(task)
        if found is None:
            raise ValueError(f"the task {task!r} names no box: the tiny policy's tasks are {', '.join(TASKS)}.")
        self.box, self.room, self.rng = found["box"], found["room"], rng
        self.living = "non-living" not in task
        self.source = "outside" if self.living else self.room

    def decide(self, text: str, recent: Sequence[str], slips: Slips) -> Decision:
        if self._slip(slips.stray):
            return self.rng.choice(
                (self._go(self.rng.choice(ROOMS)), self._look(), Decision("take", f"pick up {self._any(text)}"))
            )
        focused = [a.removeprefix("focus on ") for a in recent if a.startswith("focus on ")]
        if not focused:
            return self._find(text, recent, slips)
        thing = focused[-1]
        if self.living and f"pick up {thing}" not in recent:
            return Decision("take", f"pick up {thing}")
        if self._place(text, recent) != self.room:
            return self._go(self._room(self.room, slips))
        box = self.rng.choice(("red", "green", "blue", "yellow", "orange")) + " box"
        return Decision("bring", f"move {thing} to {box if self._slip(slips.box) else self.box}")

    def _find(self, text: str, recent: Sequence[str], slips: Slips) -> Decision:
        if self._place(text, recent) != self.source:
            return self._go(self._room(self.source, slips))
        things = self._good(text)
        if not things and not self._slip(slips.hasty):
            return self._look()
        if not things or self._slip(slips.wrong):
            return Decision("focus", f"focus on {self._any(text)}")
        return Decision("focus", f"focus on {self.rng.choice(things)}")

    def _good(self, text: str) -> list[str]:
        """Things of the page that serve: young animals outside, what can be moved elsewhere."""
        seen = [thing.strip() for thing in LINE.findall(text)] if "called the" in text else []
        if self.living:
            return [thing for thing in seen if thing.split()[0] in ("baby", "adult") or thing.endswith(" egg")]
        return [thing for thing in seen if thing in ("chair", "lighter", "cupboard", "stopwatch", "couch", "table", "painting",
                                                     "drawing", "desk", "axe", "book shelf", "thermometer")]  # fmt: skip

    def _any(self, text: str) -> str:
        seen = [thing.strip() for thing in LINE.findall(text) if not any(word in thing for word in NOT_MOVED)]
        return self.rng.choice(seen) if seen else "table"

    def _place(self, text: str, recent: Sequence[str]) -> str:
        """Where the page or the last way that was taken says one is; unknown otherwise."""
        named = re.search(r"is called the ([a-z ]+)", text)
        if named:
            return named[1]
        ways = [action.removeprefix("teleport to ") for action in recent if action.startswith("teleport to ")]
        return ways[-1] if ways else ""

    def _room(self, right: str, slips: Slips) -> str:
        return self.rng.choice(ROOMS) if self._slip(slips.room) else right

    def _go(self, room: str) -> Decision:
        return Decision("go", f"teleport to {room}")

    def _look(self) -> Decision:
        return Decision("look", "look around")

    def _slip(self, probability: float) -> bool:
        return self.rng.random() < probability


READ = Stage("read", CAREFUL, WANDER, SftSettings(steps=1000, learning_rate=2e-3), episodes=900)
IMITATE = Stage(
    "imitate", CLUMSY, None, SftSettings(steps=150, learning_rate=5e-4, warmup_steps=30, seed=1), episodes=300
)


class LaboratoryWorld(World):
    """Three tasks of finding, with teleporting and open doors (the simplification `easy`)."""

    name = "scienceworld"
    asset = "tiny_scienceworld"
    options = {"tasks": list(TASKS), "simplifications": "easy"}
    history = 4
    max_turns = 12
    max_prompt_tokens = 512
    stages = (READ, IMITATE)

    def decide(
        self, env: Any, text: str, info: dict[str, Any], recent: Sequence[str], slips: Slips, rng: random.Random
    ) -> Decision:
        malformed = rng.random() < slips.malformed
        found = Finder(info["task"], rng).decide(text, recent, slips)
        return Decision(found.thought, found.action, well_formed=not malformed)

    def make_tokenizer(self) -> Any:
        """Every word that is read in the rooms of some train tasks, as it stands at the start of a line and within one."""
        env, texts = self.make(), []
        for task in self.train_tasks()[:40]:
            text, info = env.reset(seed=0, options={"task_id": task})
            texts.append(f"{text} {info['task']}\n")
            for room in ROOMS:
                texts += [env.step(action)[0] for action in (f"teleport to {room}", "look around")]
        env.close()
        words = sorted(set(re.findall(r"[A-Za-z]+", " ".join([*texts, *ROOMS, *THOUGHTS]))))
        commands = "teleport to\nlook around\nfocus on\npick up\nmove to red green blue yellow orange box"
        words += re.findall("[a-z]+", commands)
        always = [form for word in dict.fromkeys(words) for form in (word, f" {word}")]
        prompts = ["user\nassistant\ntask: done: none\nnone", *self.plugin.prompts.values()]
        return build_tokenizer([*texts, *prompts], always=always, size=2048, merges=100)
