"""The PDDL problem of a generated game, as ALFWorld writes it (its own files are escaped in the same way)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alfworld_env.rooms import Receptacle, Room
from alfworld_env.shipped import constants

_ESCAPES = {"|": "_bar_", "-": "_minus_", "+": "_plus_", ".": "_dot_", ",": "_comma_"}
_ABILITIES = ("Cleanable", "Heatable", "Coolable", "Sliceable", "Toggleable")
LAMPS = ("DeskLamp", "FloorLamp")


@dataclass(frozen=True)
class Placed:
    """An object: its id before escaping, its type, and the receptacle that it lies on or in."""

    id: str
    type: str
    receptacle: Receptacle


def escape(name: str) -> str:
    """An id as PDDL allows it."""
    return "".join(_ESCAPES.get(letter, letter) for letter in name)


def problem(name: str, room: Room, placed: Sequence[Placed], goal: str) -> str:
    """The problem: objects, first facts, and `goal` (a PDDL goal and the last brackets, with `#` where `-` is meant)."""
    tables = constants()
    movable = set(tables.MOVABLE_RECEPTACLES)
    # a name may stand for a type of receptacle or of object, not for both
    receptacle_types = sorted(set(tables.RECEPTACLES) - movable)
    object_types = sorted((set(tables.OBJECTS_SET) - set(tables.RECEPTACLES)) | movable | set(LAMPS))
    typed = [("agent1", "agent")]
    typed += [(f"{kind}Type", "rtype") for kind in receptacle_types]
    typed += [(f"{kind}Type", "otype") for kind in object_types]
    typed += [(escape(item.id), "object") for item in placed]
    typed += [(escape(r.id), "receptacle") for r in room.receptacles]
    typed += [(escape(r.location), "location") for r in room.receptacles] + [(escape(room.start), "location")]

    facts = [f"(atLocation agent1 {escape(room.start)})"]
    for r in room.receptacles:
        facts += [
            f"(receptacleType {escape(r.id)} {r.type}Type)",
            f"(receptacleAtLocation {escape(r.id)} {escape(r.location)})",
        ]
        if r.type in tables.OPENABLE_CLASS_LIST:
            facts.append(f"(openable {escape(r.id)})")
    for item in placed:
        own = escape(item.id)
        facts.append(f"(objectType {own} {item.type}Type)")
        if item.type not in LAMPS:
            facts.append(f"(pickupable {own})")
        facts += [f"({a.lower()} {own})" for a in _ABILITIES if item.type in tables.VAL_ACTION_OBJECTS[a]]
        facts.append(f"(inReceptacle {own} {escape(item.receptacle.id)})")
        facts.append(f"(objectAtLocation {own} {escape(item.receptacle.location)})")
    for kind in sorted(room.types):
        allowed = set(tables.VAL_RECEPTACLE_OBJECTS.get(kind, ()))
        facts += [f"(canContain {kind}Type {o}Type)" for o in sorted({item.type for item in placed} & allowed)]
    lines = ["(define (problem plan_" + name + ")", "(:domain alfred)", "(:objects"]
    lines += [f"{entity} - {kind}" for entity, kind in typed]
    lines += [")", "(:init", "(= (total-cost) 0)", *facts, ")"]
    return "\n".join(lines) + goal.replace("#", "-")
