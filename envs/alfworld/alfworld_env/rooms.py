"""Rooms for generated games: the receptacles of ALFWorld's own floor plans, and where one stands to use them.

A floor plan names its openable receptacles and their places exactly, and the types of all its objects; how many of the
other receptacles there are and where they stand is drawn once per floor plan.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

from alfworld_env.shipped import constants, floor_plan

KINDS = {"Kitchen": 0, "LivingRoom": 200, "Bedroom": 300, "Bathroom": 400}
"""Kind of room -> number that its floor plans count from (1 to 30 each)."""

UNSEEN = tuple(range(1, 7))
"""Floor plans of each kind that no training game uses (alfworld/gen/constants.py, TEST_SCENE_NUMBERS)."""
SEEN = tuple(range(7, 31))

# type -> how many of it a room has where the floor plan has any
COUNTS = {
    "CounterTop": (2, 3),
    "DiningTable": (1, 1),
    "Shelf": (1, 3),
    "StoveBurner": (4, 4),
    "SideTable": (1, 2),
    "ArmChair": (1, 2),
    "HandTowelHolder": (1, 2),
    "TowelHolder": (1, 1),
    "SinkBasin": (1, 1),
    "BathtubBasin": (1, 1),
}
# what a kind of room cannot do without
NEEDED = {
    "Kitchen": ("Fridge", "Microwave", "SinkBasin", "CounterTop"),
    "LivingRoom": ("Sofa", "SideTable", "CoffeeTable"),
    "Bedroom": ("Bed", "Desk", "SideTable"),
    "Bathroom": ("SinkBasin", "CounterTop", "Toilet", "GarbageCan"),
}
SMALL = 8  # receptacles of a small room
MOST = 10  # of one type: a few kitchens have 27 drawers, more than can be searched in 50 turns


@dataclass(frozen=True)
class Receptacle:
    """A receptacle: its id as in PDDL before escaping, its type, and the location from which it is used."""

    id: str
    type: str
    location: str


@dataclass(frozen=True)
class Room:
    """A room: the receptacles, in the order of their ids, and where the agent starts."""

    kind: str
    floor_plan: int
    receptacles: tuple[Receptacle, ...]
    start: str

    @property
    def types(self) -> set[str]:
        """The types of its receptacles."""
        return {receptacle.type for receptacle in self.receptacles}


@cache
def room(floor_plan_number: int, size: str) -> Room:
    """The room of a floor plan; size "small" keeps eight receptacles, "full" all."""
    kind = {base: kind for kind, base in KINDS.items()}[floor_plan_number // 100 * 100]
    rng = random.Random(f"room {floor_plan_number}")
    openable, objects, points = floor_plan(floor_plan_number)
    places = _Places(rng, [(float(x), float(z)) for x, z in points])
    known = set(constants().RECEPTACLES) - set(constants().MOVABLE_RECEPTACLES)
    found: list[Receptacle] = []
    for name, (x, z, rotation, horizon) in sorted(openable.items()):
        kind_of = name.split("|")[0]
        if kind_of in known and sum(r.type == kind_of for r in found) < MOST:
            found.append(Receptacle(name, kind_of, places.at(x, z, int(rotation), int(horizon))))
    have = {receptacle.type for receptacle in found}
    for kind_of in sorted((known & set(objects) | set(NEEDED[kind])) - have):
        for _ in range(rng.randint(*COUNTS.get(kind_of, (1, 1)))):
            location, where = places.any()
            basin = {"SinkBasin": "Sink", "BathtubBasin": "Bathtub"}.get(kind_of)
            name = f"{basin}|{where}|{kind_of}" if basin else f"{kind_of}|{where}"
            found.append(Receptacle(name, kind_of, location))
    if size == "small":
        found = _fewer(found, kind, rng)
    start, _ = places.any()
    return Room(kind, floor_plan_number, tuple(sorted(found, key=lambda r: r.id)), start)


def _fewer(found: list[Receptacle], kind: str, rng: random.Random) -> list[Receptacle]:
    """One of each needed type, then others, at most two of a type."""
    kept = [next(r for r in found if r.type == needed) for needed in NEEDED[kind]]
    rest = [r for r in found if r not in kept]
    rng.shuffle(rest)
    for receptacle in rest:
        if len(kept) < SMALL and sum(r.type == receptacle.type for r in kept) < 2:
            kept.append(receptacle)
    return kept


class _Places:
    """Locations (`loc|x|z|rotation|horizon`, in quarter metres, quarter turns and degrees), each given once: the engine
    takes what stands at one location as one place."""

    def __init__(self, rng: random.Random, points: list[tuple[float, float]]) -> None:
        self.rng = rng
        self.points = points
        self.taken: set[str] = set()

    def at(self, x: float, z: float, rotation: int, horizon: int) -> str:
        """The location, or with another horizon where it is taken."""
        while True:
            name = f"loc|{round(x * 4)}|{round(z * 4)}|{rotation // 90 % 4}|{horizon}"
            if name not in self.taken:
                self.taken.add(name)
                return name
            horizon += 1

    def any(self) -> tuple[str, str]:
        """A location that can be reached, and a position in the room."""
        x, z = self.rng.choice(self.points)
        where = "|".join(f"{v:+06.2f}" for v in (x, self.rng.uniform(0, 2), z + self.rng.uniform(-0.5, 0.5)))
        return self.at(x, z, self.rng.choice((0, 90, 180, 270)), self.rng.choice((0, 30, 45))), where
