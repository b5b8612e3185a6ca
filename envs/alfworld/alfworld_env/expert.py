"""A scripted player for demonstrations and for proofs that a game can be won.

It reads the texts as an agent does: it goes from receptacle to receptacle, the likely ones first, until it sees the
object, does with it what the task asks, and brings it where it belongs. It works with the commands of both versions of
ALFWorld's data ("move" and "put"), and brings two objects one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from alfworld_env.generate import Goal
from alfworld_env.shipped import constants

_SEEN = re.compile(r"\b(?:a|an) ([a-z]+ \d+)\b")
_APPLIANCE = {
    "pick_clean_then_place_in_recep": ("clean", "sinkbasin"),
    "pick_heat_then_place_in_recep": ("heat", "microwave"),
    "pick_cool_then_place_in_recep": ("cool", "fridge"),
}


class Expert:
    """One episode: `act` with each text and its possible commands gives the next command.

    Args:
        goal: what is to be done.
        first: names of receptacles to search before all others, e.g. where the objects are known to lie.
    """

    def __init__(self, goal: Goal, first: Sequence[str] = ()) -> None:
        self.goal = goal
        self.kind = goal.object.lower()
        self.target = goal.receptacle.lower()
        self.lamp = goal.lamp.lower()
        self.first = list(first)
        self.receptacles: list[str] = []
        self.contents: dict[str, list[str]] = {}  # receptacle -> what was seen there; absent: not seen yet
        self.here = ""
        self.holding = ""
        self.done = False  # the object that is held has been cleaned, heated or cooled
        self.placed: set[str] = set()

    def act(self, text: str, commands: Iterable[str]) -> str:
        """The next command, one of `commands`."""
        commands = list(commands)
        self._read(text, commands)
        wanted = self._bring(commands) if self.holding else self._fetch(commands)
        if wanted in commands:
            self._expect(wanted)
            return wanted
        return "look" if "look" in commands else commands[0]

    def _read(self, text: str, commands: Sequence[str]) -> None:
        if not self.receptacles:
            self.receptacles = sorted(
                {c[len("go to ") :] for c in commands if c.startswith("go to ")}, key=self._likely
            )
            return
        closed = re.search(r"The ([a-z]+ \d+) is closed", text)
        shown = re.search(r"(?:On|In) (?:the |it, )(?:([a-z]+ \d+), )?you see (.*)", text)
        if self.here and shown and not closed:
            self.contents[self.here] = _SEEN.findall(shown[2])

    def _likely(self, name: str) -> tuple[int, int, str]:
        kind = name.split()[0]
        tables = constants()
        proper = {r.lower(): objects for r, objects in tables.VAL_RECEPTACLE_OBJECTS.items()}.get(kind, ())
        openable = kind in {name.lower() for name in tables.OPENABLE_CLASS_LIST}
        return (
            self.first.index(name) if name in self.first else len(self.first),
            (2 if openable else 1) if self.goal.object in proper else 3,
            name,
        )

    def _fetch(self, commands: Sequence[str]) -> str:
        place = self._where(self.kind, skip_target=True)
        if place is None:
            return self._search(commands)
        if place != self.here:
            return f"go to {place}"
        if f"open {place}" in commands:
            return f"open {place}"
        taken = next(o for o in self.contents[place] if o.split()[0] == self.kind and o not in self.placed)
        return f"take {taken} from {place}"

    def _bring(self, commands: Sequence[str]) -> str:
        if self.lamp:
            place = self._where(self.lamp)
            if place is None:
                return self._search(commands)
            lamp = next(o for o in self.contents[place] if o.split()[0] == self.lamp)
            return f"use {lamp}" if place == self.here else f"go to {place}"
        verb, appliance = _APPLIANCE.get(self.goal.task_type, ("", ""))
        if verb and not self.done:
            place = next((r for r in self.receptacles if r.split()[0] == appliance), "")
            return f"{verb} {self.holding} with {place}" if place == self.here else f"go to {place}"
        # both objects of a pair belong to one receptacle, so always the same one
        place = next((r for r in self.receptacles if r.split()[0] == self.target), "")
        if place != self.here:
            return f"go to {place}"
        if f"open {place}" in commands:
            return f"open {place}"
        return next((c for c in commands if re.fullmatch(rf"(move|put) {self.holding} (to|in/on) {place}", c)), "look")

    def _search(self, commands: Sequence[str]) -> str:
        if self.here and self.here not in self.contents and f"open {self.here}" in commands:
            return f"open {self.here}"
        place = next((r for r in self.receptacles if r not in self.contents and r != self.here), "")
        return f"go to {place}" if place else "look"

    def _where(self, kind: str, skip_target: bool = False) -> str | None:
        for place, objects in self.contents.items():
            if skip_target and self.target and place.split()[0] == self.target and not self._unfinished(place):
                continue
            if any(o.split()[0] == kind and o not in self.placed for o in objects):
                return place
        return None

    def _unfinished(self, place: str) -> bool:
        # an object that lies where it belongs may still have to be cleaned, or to join its pair elsewhere
        return self.goal.task_type != "pick_and_place_simple" and place.split()[0] == self.target

    def _expect(self, command: str) -> None:
        words = command.split()
        if words[0] == "go":
            self.here = command[len("go to ") :]
        elif words[0] == "take":
            self.holding, self.done = " ".join(words[1:3]), False
            self.contents[self.here].remove(self.holding)
        elif words[0] in ("move", "put"):
            self.placed.add(self.holding)
            self.contents.setdefault(self.here, []).append(self.holding)
            self.holding = ""
        elif words[0] in ("clean", "heat", "cool"):
            self.done = True
