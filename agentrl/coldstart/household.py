"""ALFWorld for the cold start: somebody who tidies up, forgets what has been searched four actions ago, and errs.

One stage of good answers in the states that a wandering player comes to, then one of the answers of a clumsy player.
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

THOUGHTS = ("find", "open", "take", "use", "clean", "heat", "cool", "bring", "move", "drop", "look")
PROCESS = {
    "pick_clean_then_place_in_recep": ("clean", "sinkbasin", "isclean"),
    "pick_heat_then_place_in_recep": ("heat", "microwave", "ishot"),
    "pick_cool_then_place_in_recep": ("cool", "fridge", "iscool"),
}


@dataclass(frozen=True)
class Slips:
    """Probabilities of the slips, each drawn anew whenever it could happen.

    stray: any action that is possible. roam: goes elsewhere although the next step is known. leave: goes on without
    opening what is closed. skip: brings the object without cleaning, heating or cooling it. misplace: brings it to the
    wrong place. malformed: breaks the format.
    """

    stray: float = 0.0
    roam: float = 0.0
    leave: float = 0.0
    skip: float = 0.0
    misplace: float = 0.0
    malformed: float = 0.0


CAREFUL = Slips()
WANDER = Slips(stray=0.2, roam=0.15, leave=0.1, skip=0.2, misplace=0.2, malformed=0.02)
CLUMSY = Slips(stray=0.1, roam=0.1, leave=0.15, skip=0.2, misplace=0.2, malformed=0.03)


class Tidier:
    """Decides on the running episode of an ALFWorld environment."""

    def __init__(self, env: Any, rng: random.Random) -> None:
        self.env, self.rng = env, rng
        goal = env.game.goal
        self.task_type = goal.task_type
        self.kind, self.target, self.lamp = goal.object.lower(), goal.receptacle.lower(), goal.lamp.lower()
        self.object = goal.object

    def decide(self, commands: Sequence[str], recent: Sequence[str], slips: Slips) -> Decision:
        if self._slip(slips.stray):
            return Decision("look", self.rng.choice([c for c in commands if c != "help"]))
        if self._slip(slips.roam):
            return Decision("find", self._elsewhere(commands, recent, proper=False))
        facts, names = self.env.engine.facts, self.env.engine.names
        held = [(entity, names[entity]) for _, entity in facts["holds"]]
        if not held:
            return self._fetch(commands, recent, slips)
        entity, name = held[0]
        if name.split()[0] != self.kind:
            return self._drop(name, commands, recent)
        if self.lamp:
            use = [c for c in commands if c.startswith(f"use {self.lamp} ")]
            return Decision("use", use[0]) if use else self._search(commands, recent, slips)
        if self.task_type in PROCESS:
            verb, appliance, state = PROCESS[self.task_type]
            if (entity,) not in facts[state] and not self._slip(slips.skip):
                here = [c for c in commands if c.startswith(f"{verb} {name} with ")]
                return Decision(verb, here[0] if here else f"go to {appliance} 1")
        return self._bring(name, commands, recent, slips)

    def _fetch(self, commands: Sequence[str], recent: Sequence[str], slips: Slips) -> Decision:
        for command in commands:
            taken = re.fullmatch(rf"take {self.kind} \d+ from ([a-z]+) \d+", command)
            # what lies where it belongs stays there, unless it must first be cleaned, heated or cooled
            if taken and (taken[1] != self.target or self.task_type in PROCESS):
                return Decision("take", command)
        return self._search(commands, recent, slips)

    def _search(self, commands: Sequence[str], recent: Sequence[str], slips: Slips) -> Decision:
        shut = [c for c in commands if c.startswith("open ")]
        if shut and not self._slip(slips.leave):
            return Decision("open", shut[0])
        return Decision("find", self._elsewhere(commands, recent, proper=True))

    def _bring(self, name: str, commands: Sequence[str], recent: Sequence[str], slips: Slips) -> Decision:
        if self._slip(slips.misplace):
            move = [c for c in commands if c.startswith("move ")]
            return Decision("move", move[0]) if move else Decision("bring", self._elsewhere(commands, recent, False))
        target = f"{self.target} 1"
        if f"go to {target}" in commands:
            return Decision("bring", f"go to {target}")
        if f"open {target}" in commands:
            return Decision("open", f"open {target}")
        return Decision("move", f"move {name} to {target}")

    def _drop(self, name: str, commands: Sequence[str], recent: Sequence[str]) -> Decision:
        down = [c for c in commands if c.startswith(f"move {name} to ")]
        return Decision("drop", down[0]) if down else Decision("drop", self._elsewhere(commands, recent, False))

    def _elsewhere(self, commands: Sequence[str], recent: Sequence[str], proper: bool) -> str:
        """Somewhere not lately been to, where the object may be (`proper`), or anywhere."""
        from alfworld_env.shipped import constants

        places = [c for c in commands if c.startswith("go to ")]
        tables = {r.lower(): objects for r, objects in constants().VAL_RECEPTACLE_OBJECTS.items()}
        fresh = [c for c in places if c not in recent]
        likely = [c for c in fresh if self._may_hold(c.split()[2], tables)] if proper else []
        return self.rng.choice(likely or fresh or places)

    def _may_hold(self, kind: str, tables: dict[str, Any]) -> bool:
        held = self.env.engine.facts["holds"]
        if held and self.lamp:
            return kind in ("desk", "sidetable", "dresser", "coffeetable", "diningtable", "shelf")
        return self.object in tables.get(kind, ()) and (kind != self.target or self.task_type in PROCESS)

    def _slip(self, probability: float) -> bool:
        return self.rng.random() < probability


READ = Stage("read", CAREFUL, WANDER, SftSettings(steps=2000, learning_rate=2e-3))
IMITATE = Stage("imitate", CLUMSY, None, SftSettings(steps=120, learning_rate=5e-4, warmup_steps=30, seed=1))


class HouseholdWorld(World):
    """Generated games in small rooms."""

    name = "alfworld"
    asset = "tiny_alfworld"
    options = {"size": "small", "data_dir": "generated"}
    history = 4
    max_turns = 20
    max_prompt_tokens = 448
    stages = (READ, IMITATE)

    def decide(
        self, env: Any, text: str, info: dict[str, Any], recent: Sequence[str], slips: Slips, rng: random.Random
    ) -> Decision:
        malformed = rng.random() < slips.malformed
        found = Tidier(env, rng).decide(info["admissible_actions"], recent, slips)
        return Decision(found.thought, found.action, well_formed=not malformed)

    def make_tokenizer(self) -> Any:
        """Every word of the engine's texts, as it stands at the start of a line and within one."""
        from alfworld_env.shipped import constants

        tables = constants()
        kinds = {kind.lower() for kind in (*tables.OBJECTS_SET, *tables.RECEPTACLES)}
        env, texts = self.make(), []
        rng = random.Random(0)
        for task in self.train_tasks()[:300]:
            text, info = env.reset(options={"task_id": task})
            texts.append(f"{text} {info['task']}\n")
            for _ in range(10):
                text, _, ended, _, info = env.step(rng.choice(info["admissible_actions"]))
                texts.append(text + "\n" + "\n".join(info["admissible_actions"]) + "\n")
                if ended:
                    break
        env.close()
        said = set(re.findall(r"[A-Za-z]+", " ".join(texts)))
        words = sorted(said | kinds | set(THOUGHTS)) + [str(number) for number in range(13)]
        always = [form for word in words for form in (word, f" {word}")]
        prompts = ["user\nassistant\ntask: done: none\nnone", *self.plugin.prompts.values()]
        return build_tokenizer([*texts, *prompts], always=always, size=2048, merges=100)
