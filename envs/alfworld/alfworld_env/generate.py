"""Generated games: real ALFWorld games (PDDL problem and grammar) for all six task types, each from its task id alone."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from alfworld_env.problem import Placed, problem
from alfworld_env.rooms import KINDS, SEEN, UNSEEN, Room, room
from alfworld_env.shipped import constants, domain, goals, grammar

GENERATOR = "1"  # goes into fingerprints: raise it when the same id would give another game

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
SPLITS = {"train": (SEEN, 1200), "validation": (SEEN, 120), "test": (UNSEEN, 120)}
"""split -> (floor plans, number of games). validation is ALFWorld's valid_seen, test its valid_unseen."""
SIZES = ("full", "small")

_NEEDS = {  # task type -> (what the object must be, the receptacle that does it)
    "pick_clean_then_place_in_recep": ("Cleanable", "SinkBasin"),
    "pick_heat_then_place_in_recep": ("Heatable", "Microwave"),
    "pick_cool_then_place_in_recep": ("Coolable", "Fridge"),
}
_OBJECTS = {
    "Kitchen": "Apple Bread ButterKnife Cup DishSponge Egg Fork Knife Lettuce Mug Pan PepperShaker Plate Pot Potato "
    "SaltShaker SoapBottle Spatula Spoon Tomato Bowl Kettle Ladle WineBottle",
    "LivingRoom": "Book CellPhone CreditCard KeyChain Laptop Newspaper Pillow RemoteControl TissueBox Vase WateringCan "
    "Box Statue Watch",
    "Bedroom": "AlarmClock Book CD CellPhone CreditCard KeyChain Laptop Mug Pen Pencil Pillow Bowl BaseballBat "
    "BasketBall TennisRacket",
    "Bathroom": "Candle Cloth HandTowel SoapBar SoapBottle SprayBottle ToiletPaper DishSponge TissueBox",
}
_LAMP_TOPS = ("Desk", "SideTable", "Dresser", "CoffeeTable", "DiningTable", "Shelf")


@dataclass(frozen=True)
class Goal:
    """What is to be done: the task type, the type of the object, of the receptacle ("" for look_at_obj_in_light) and of
    the lamp ("" for the others)."""

    task_type: str
    object: str
    receptacle: str = ""
    lamp: str = ""


@dataclass(frozen=True)
class Game:
    """A game: what the engine loads (`pddl_domain`, `pddl_problem`, `grammar`), and its goal."""

    task_id: str
    data: dict[str, Any]
    goal: Goal
    room: Room | None = None
    placed: tuple[Placed, ...] = ()


@lru_cache(maxsize=256)
def game_of(split: str, number: int, size: str) -> Game:
    """Game `number` of a split. The task types take turns."""
    plans, _ = SPLITS[split]
    task_type = TASK_TYPES[number % len(TASK_TYPES)]
    rng = random.Random(f"{GENERATOR} {split} {number} {size}")
    while True:  # a room that has no object for this type of task is drawn again
        kind = rng.choice(sorted(constants().GOALS_VALID[task_type]))
        where = room(KINDS[kind] + rng.choice(plans), size)
        goal = _goal(task_type, where, rng)
        if goal is not None:
            break
    placed = _place(goal, where, size, rng)
    wanted = goals()[task_type]
    words = {"obj": goal.object, "recep": goal.receptacle, "toggle": goal.lamp, "mrecep": ""}
    sentence = rng.choice(wanted["templates"]).format(**{key: word.lower() for key, word in words.items()}) + "."
    data = {
        "pddl_domain": domain(),
        "grammar": grammar().replace("UNKNOWN GOAL.", sentence),
        "pddl_problem": problem(f"{split}_{number}", where, placed, wanted["pddl"].format(**words)),
        "solvable": True,
        "walkthrough": None,
    }
    return Game(f"{split}/{task_type}/{number:06d}", data, goal, where, tuple(placed))


def _goal(task_type: str, where: Room, rng: random.Random) -> Goal | None:
    tables = constants()
    holds = {kind: set(tables.VAL_RECEPTACLE_OBJECTS.get(kind, ())) for kind in where.types}
    need, appliance = _NEEDS.get(task_type, ("", ""))
    lamp = rng.choice(("DeskLamp", "FloorLamp")) if task_type == "look_at_obj_in_light" else ""
    if lamp and not where.types & set(_LAMP_TOPS):
        return None
    choices = []
    for kind in _OBJECTS[where.kind].split():
        if need and kind not in tables.VAL_ACTION_OBJECTS[need]:
            continue
        targets = sorted(r for r, objects in holds.items() if kind in objects and r != appliance)
        # it must be able to lie somewhere that is not its target
        targets = [t for t in targets if any(kind in objects for r, objects in holds.items() if r != t)]
        choices += [Goal(task_type, kind, "" if lamp else target, lamp) for target in targets]
    # first the object, then the receptacle, so that what fits everywhere is not drawn more often
    kinds = sorted({choice.object for choice in choices})
    if not kinds:
        return None
    kind = rng.choice(kinds)
    return rng.choice([choice for choice in choices if choice.object == kind])


def _place(goal: Goal, where: Room, size: str, rng: random.Random) -> list[Placed]:
    """Objects of the goal first, none of them where it is wanted, then others."""
    tables = constants()
    placed: list[Placed] = []

    def put(kind: str, forbidden: str = "") -> None:
        fits = [
            r
            for r in where.receptacles
            if kind in tables.VAL_RECEPTACLE_OBJECTS.get(r.type, ()) and r.type != forbidden
        ]
        if fits:
            place = "|".join(f"{rng.uniform(-3, 3):+06.2f}" for _ in range(3))
            placed.append(Placed(f"{kind}|{place}", kind, rng.choice(fits)))

    fewest = 2 if goal.task_type == "pick_two_obj_and_place" else 1
    for _ in range(rng.randint(fewest, 3 if size == "full" else fewest)):
        put(goal.object, goal.receptacle)
    if goal.lamp:
        tops = [r for r in where.receptacles if r.type in _LAMP_TOPS]
        placed.append(Placed(f"{goal.lamp}|+00.00|+01.00|+00.00", goal.lamp, rng.choice(tops)))
    others = [kind for kind in _OBJECTS[where.kind].split() if kind != goal.object]
    if size == "small":
        others = rng.sample(others, 5)
    for kind in others:
        for _ in range(rng.choice((0, 1, 1, 2, 3)) if size == "full" else 1):
            put(kind)
    return placed
