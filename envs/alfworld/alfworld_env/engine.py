"""One game at a time on TextWorld's PDDL engine (Fast Downward's state, operators and goal), with texts by `grammar`."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from alfworld_env.grammar import PARSING, Grammar, grammar_of, split_goal
from alfworld_env.translate import Translated, translated

NOTHING = "Nothing happens."


@dataclass(frozen=True)
class Operator:
    """An action that can be taken now."""

    id: int
    effects: int
    action: str
    bound: dict[str, str]


class Engine:
    """Plays games: `load`, then `step` with commands.

    Its native library cannot be unloaded and keeps its state in global variables, so each engine has a copy of its own,
    3 MB, which `close` hands on to the next engine of the process.
    """

    def __init__(self) -> None:
        import fast_downward
        from textworld.envs.pddl.logic import Atom

        self._fd, self._atom = fast_downward, Atom
        self._lib = _take_library()
        self.facts: dict[str, set[tuple[str, ...]]] = {}
        self.names: Mapping[str, str] = {}
        self.types: Mapping[str, str] = {}
        self.operators: dict[str, Operator] = {}

    def load(self, data: Mapping[str, Any], cache_dir: str | None = None) -> str:
        """Start a game (`pddl_domain`, `pddl_problem`, `grammar`) and return its first text.

        Raises GrammarError or PddlError, both ValueError, where the game cannot be read.
        """
        source, goal = split_goal(data["grammar"])
        self.grammar: Grammar = grammar_of(source)
        game: Translated = translated(data["pddl_domain"], data["pddl_problem"], cache_dir)
        self.goal = goal
        self._parameters, self.types, self.names = game.parameters, game.types, game.names
        self.facts = defaultdict(set)
        for predicate, *arguments in game.facts:
            self.facts[predicate].add(tuple(arguments))
        self._lib.load_sas(game.sas)
        atoms = (self._atom * self._lib.get_state_size())()
        self._lib.get_state(atoms)
        for atom in atoms:
            self._note(atom.name, only_positive=True)
        self._look_up_operators()
        intro = self.grammar.text((("symbol", "intro"),), self, {})
        return intro.replace("UNKNOWN GOAL.", goal)

    def step(self, command: str) -> tuple[str, bool]:
        """Take a command. Returns what the game says, and whether the command was one of `operators`."""
        operator = self.operators.get(command)
        if operator is None:
            return NOTHING, False
        effects = (self._atom * operator.effects)()
        self._lib.apply_operator(operator.id, effects)
        for effect in effects:
            self._note(effect.name)
        said = self.grammar.text(self.grammar.actions[operator.action].feedback, self, operator.bound)
        self._look_up_operators()
        return said, True

    @property
    def won(self) -> bool:
        """Whether the goal holds now."""
        return bool(self._lib.check_goal())

    def close(self) -> None:
        """Hand the library on. The engine cannot be used afterwards; may be called twice."""
        if self._lib is not None:
            self._lib.cleanup()
            _give_back(self._lib)
            self._lib = None

    def _note(self, atom: str, only_positive: bool = False) -> None:
        # "Atom inreceptacle(mug, shelf)" or "NegatedAtom ..."
        sign, _, rest = atom.partition(" ")
        predicate, _, inner = rest.partition("(")
        arguments = tuple(inner[:-1].split(", ")) if inner != ")" else ()
        negated = sign == "NegatedAtom"
        if negated and only_positive:
            return
        true, false = (f"not_{predicate}", predicate) if negated else (predicate, f"not_{predicate}")
        self.facts[true].add(arguments)
        if false in self.facts:
            self.facts[false].discard(arguments)

    def _look_up_operators(self) -> None:
        found = (self._fd.Operator * self._lib.get_applicable_operators_count())()
        self._lib.get_applicable_operators(found)
        self.operators = {}
        for operator in found:
            action, *arguments = operator.name.split()
            # the translation appends what an action quantifies over to its parameters; operators do not name these
            bound = {p: entity for (p, _), entity in zip(self._parameters[action], arguments, strict=False)}
            command = self.grammar.text(self.grammar.actions[action].command, self, bound)
            # two operators with one command do the same; TextWorld takes the first
            self.operators.setdefault(command, Operator(operator.id, operator.nb_effect_atoms, action, bound))


_free: list[Any] = []
_pool = threading.Lock()


def _take_library() -> Any:
    with _pool:
        if _free:
            return _free.pop()
    import fast_downward

    with PARSING:
        return fast_downward.load_lib()


def _give_back(library: Any) -> None:
    with _pool:
        _free.append(library)
