"""One world of the engine: loading a variation, commands, and what is asked of it between them.

Made repeatable here. All worlds of a Java process share one random source, one counter that numbers new objects, and
one list of simplifications ("easy" means other ones for tasks with circuits). All three are set before every command, to
what follows from (task, seed, number of the command), to where this world's counter stood and to what this world was
loaded with, so that worlds do not feel each other and a replay meets the same chances.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

from scienceworld_env.jvm import CALL_ERRORS, EngineGone, Jvm, acquire, release

UNKNOWN = ("No known action matches that input.", "Unknown action.")
QUESTION = "Ambiguous request"
LONGEST = 500  # characters of a command; no command of the engine is near


@dataclass(frozen=True)
class Shown:
    """What the engine says after a command. `score` is its own, -1 where the task can no longer be solved."""

    text: str
    look: str
    inventory: str
    score: float
    completed: bool
    known: bool


class World:
    """Holds a front of the shared Java process from the first load to `close`."""

    def __init__(self) -> None:
        self._jvm: Jvm | None = None
        self._front: Any = None
        self._identity = ""
        self._commands = 0
        self._objects = 0
        self._simplifications = ""
        self._question: list[str] = []  # numbers that answer the engine's standing question
        self._asked = ""  # the command that it asked about

    def load(self, task: str, variation: int, simplifications: str, seed: int, gold: bool = False) -> Shown:
        """Start a variation. Raises EngineGone."""
        jvm = self._open()
        self._identity, self._commands, self._objects = f"{task}|{variation}|{seed}", 0, 0
        self._question = []
        with self._calls():
            said = self._front.load(task, variation, simplifications, gold)
            self._forget_tasks()
            if said:
                raise EngineGone(f"the engine could not load variation {variation} of {task!r}: {said}")
            self._objects, self._simplifications = jvm.ids.count(), jvm.simplifications()
            # until its first command the engine still tells the score and the end of the episode before
            return replace(self._shown(""), score=0.0, completed=False)

    def command(self, text: str) -> Shown:
        """One command. What the engine does not know changes nothing, a standing question included."""
        text = text.encode("utf-8", "replace").decode()[: LONGEST + 1].replace("\n", " ")
        with self._calls():
            if len(text) > LONGEST or not text.strip():
                return self._shown(UNKNOWN[0], known=False)
            if self._question and text.strip() not in self._question:
                # the engine takes any text for an answer then, and lets time pass for a wrong one
                self._clear_question()
                shown = self._step(text)
                if not shown.known:
                    self._ask_again()
                return shown
            return self._step(text)

    def valid_actions(self) -> list[str]:
        """The engine's own list of commands that are possible now, sorted. Slow: 200 to 1,300 texts.

        One in ten or so names what the engine's parser then does not find: things behind a drain, things in things.
        """
        with self._calls() as jvm:
            self._prepare(jvm, "valid")
            if self._question:
                return list(self._question)
            return sorted(set(jvm.joined(self._front.getValidActionObjectCombinations())))

    def gold_path(self) -> list[str]:
        """Of a load with gold=True."""
        with self._calls() as jvm:
            return jvm.joined(self._front.getGoldActionSequence())

    def goal(self) -> str:
        """The task in words, on one line."""
        with self._calls():
            text = str(self._front.freeActionTaskDesc())
        return " ".join(text.partition("Task Description:")[2].split()) or text

    def objects(self) -> str:
        """Everything in the world, with all properties, as the engine's JSON."""
        with self._calls():
            return str(self._front.getObjectTree(""))

    @property
    def question(self) -> str:
        """What the engine's standing question is about; empty if there is none."""
        return self._asked if self._question else ""

    def close(self) -> None:
        """Leave the Java process. May be called twice."""
        jvm, self._jvm = self._jvm, None
        if jvm is not None:
            if self._front is not None and jvm.alive:
                with suppress(Exception):
                    jvm.gateway.detach(self._front)
            release(id(self), jvm)
        self._front = None

    def _open(self) -> Jvm:
        jvm = acquire(id(self))
        if jvm is not self._jvm or self._front is None:
            self._jvm, self._front = jvm, None
            with self._calls():
                jvm.random.setSeed(0)  # the list of tasks is drawn too
                self._front = jvm.new_interface()
                self._forget_tasks()
        return jvm

    @contextmanager
    def _calls(self) -> Iterator[Jvm]:
        jvm = self._jvm
        if jvm is None:
            raise EngineGone("this world is closed: call reset.")
        with jvm.lock:
            try:
                yield jvm
            except CALL_ERRORS as error:
                self._front = None  # its state is unknown now
                jvm.failed(error)

    def _forget_tasks(self) -> None:
        """The engine makes the list of all 7,207 variations at every load, 10 MB of it, and needs it no more."""
        getattr(self._front, "taskMaker_$eq")(None)

    def _prepare(self, jvm: Jvm, what: str) -> None:
        """Set what worlds share to what this one has."""
        jvm.simplify(self._simplifications)
        getattr(jvm.ids, "count_$eq")(self._objects)
        digest = blake2b(f"{self._identity}|{self._commands}|{what}".encode(), digest_size=6).digest()
        jvm.random.setSeed(int.from_bytes(digest, "big"))

    def _step(self, text: str) -> Shown:
        jvm = self._jvm
        assert jvm is not None
        self._prepare(jvm, "step")
        said = str(self._front.step(text))
        self._objects = jvm.ids.count()
        known = not said.startswith(UNKNOWN)
        if known:
            self._commands += 1
            self._question = []
            if said.startswith(QUESTION):
                self._asked = text
                self._question = [line.partition(":")[0] for line in said.split("\n")[1:] if ":" in line]
        return self._shown(said, known)

    def _ask_again(self) -> None:
        """The same question, with the chances that it had."""
        self._commands -= 1
        self._step(self._asked)

    def _clear_question(self) -> None:
        jvm, made = self._jvm, []
        assert jvm is not None
        made.append(self._front.agentInterface())
        made.append(made[-1].get())
        made.append(made[-1].inputParser())
        made[-1].clearAmbiguousState()
        for value in made:
            jvm.gateway.detach(value)

    def _shown(self, text: str, known: bool = True) -> Shown:
        front = self._front
        return Shown(
            text,
            str(front.freeActionLook()),
            str(front.freeActionInventory()),
            float(front.getScore()),
            bool(front.getCompleted()),
            known,
        )
