"""ALFWorld's text grammar, parsed once by TextWorld's parser and then evaluated directly.

TextWorld parses every template anew at every step and copies the whole context for every symbol, which takes most of a
step of 55 to 95 ms. Here a template becomes a tree of small nodes. The texts are the same but for the order within a
list ("you see a mug 1, and a pan 2"): TextWorld's follows Python's salted hashes, ours the ids of the entities, which is
the order of the public ALFWorld texts and the same in every process.
"""

from __future__ import annotations

import ast
import json
import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from alfworld_env.shipped import INSTALL

try:
    from textworld.envs.pddl import logic, textgen
    from textworld.logic import Rule
except ImportError as error:  # named where an environment is made, not a bare traceback
    raise ImportError(f"ALFWorld's engine is not installed ({error}): {INSTALL}.") from error

PARSING = threading.RLock()  # TextWorld's parsers and translator keep global state

Bindings = Mapping[str, str]
"""Placeholder -> entity id."""


class World(Protocol):
    """What the texts are about: facts by predicate, and the names and types of entities."""

    facts: dict[str, set[tuple[str, ...]]]
    names: Mapping[str, str]
    types: Mapping[str, str]


class GrammarError(ValueError):
    """The grammar of a game uses something that is not understood."""


@dataclass(frozen=True)
class Query:
    """A conjunction of predicates with typed placeholders."""

    parts: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]

    def solutions(self, world: World, bound: Bindings, part: int = 0) -> Iterator[dict[str, str]]:
        """All extensions of `bound` that make every part a fact; different placeholders stand for different entities."""
        if part == len(self.parts):
            yield dict(bound)
            return
        predicate, parameters = self.parts[part]
        known = [bound.get(placeholder) for placeholder, _ in parameters]
        facts = world.facts.get(predicate, ())
        if None not in known:
            if tuple(known) in facts:
                yield from self.solutions(world, bound, part + 1)
            return
        fits = [fact for fact in facts if all(k is None or k == e for k, e in zip(known, fact, strict=True))]
        for arguments in sorted(fits):
            extended = dict(bound)
            taken = set(bound.values())
            for (placeholder, kind), entity in zip(parameters, arguments, strict=True):
                if placeholder in bound:
                    continue
                if entity in taken or world.types[entity] != kind:
                    break
                extended[placeholder] = entity
                taken.add(entity)
            else:
                yield from self.solutions(world, extended, part + 1)


@dataclass(frozen=True)
class ActionText:
    """Templates of one action: the command to type, and the symbol that tells what it did."""

    command: Any
    feedback: Any


class Grammar:
    """Texts of a game. Raises GrammarError where the source cannot be read."""

    def __init__(self, source: str) -> None:
        with PARSING:
            try:
                actions, rules = logic._parse_and_convert(source, rule_name="pddlStart")
            except Exception as error:
                raise GrammarError(f"the text grammar cannot be read: {str(error)[:200]}") from error
            self.rules = {
                name: [(_query(rule.condition), _nodes(rule.rhs)) for rule in alternatives]
                for name, alternatives in rules._rules.items()
            }
            self.actions = {
                name: ActionText(_parsed(action.template), _parsed(action.feedback_rule))
                for name, action in actions.items()
            }
        self.put_word = "put" if re.match(r"put\b", actions["putobject"].template) else "move"

    def text(self, nodes: Any, world: World, bound: Bindings) -> str:
        """What a template says of the world as it is."""
        return "".join(self._say(node, world, bound) for node in nodes)

    def _say(self, node: Any, world: World, bound: Bindings) -> str:
        kind = node[0]
        if kind == "text":
            return str(node[1])
        if kind == "symbol":
            for query, nodes in self.rules.get(node[1], ()):
                if query is None or next(query.solutions(world, bound), None) is not None:
                    return self.text(nodes, world, bound)
            raise GrammarError(f"no rule of the text grammar fits #{node[1]}#.")
        if kind == "value":
            return _value(node[1], world, bound)
        said = self._all(node[1], world, bound) if kind == "list" else self._all(node, world, bound)
        if kind != "list":
            return "".join(said)
        if not said:
            return self._say(("symbol", "list_empty"), world, bound)
        if len(said) == 1:
            return said[0]
        comma, last = (self._say(("symbol", f"list_{s}"), world, bound) for s in ("separator", "last_separator"))
        return comma.join(said[:-1]) + last + said[-1]

    def _all(self, node: Any, world: World, bound: Bindings) -> list[str]:
        _, expression, query = node
        found = [bound] if query is None else query.solutions(world, bound)
        return [self._say(expression, world, extended) for extended in found]


_GOAL = re.compile(r'("rhs":\s*"Your task is to: )((?:[^"\\]|\\.)*)(")')
_GAP = "\x00"


def split_goal(source: str) -> tuple[str, str]:
    """The grammar of a game without its goal, and the goal ("put some mug on desk.")."""
    found = _GOAL.search(source)
    if found is None:
        raise GrammarError('the text grammar has no rule "Your task is to: ...".')
    return source[: found.start(2)] + "UNKNOWN GOAL." + source[found.end(2) :], json.loads(f'"{found[2]}"')


@lru_cache(maxsize=8)
def grammar_of(source: str) -> Grammar:
    """The grammar of a source without its goal (split_goal), parsed once: all games of a version share it."""
    return Grammar(source)


def _parsed(template: str) -> Any:
    return _nodes(textgen._parse_and_convert(template, rule_name="symbols"))


def _query(condition: str) -> Query | None:
    if not condition:
        return None
    parts = Rule.parse_conjunctive_query(condition).preconditions
    return Query(tuple((p.name, tuple((ph.name, ph.type) for ph in p.parameters)) for p in parts))


def _nodes(symbols: Any) -> tuple[Any, ...]:
    return tuple(_node(symbol) for symbol in symbols)


def _node(symbol: Any) -> tuple[Any, ...]:
    if isinstance(symbol, textgen.TerminalSymbol):
        return ("text", str(symbol))
    if isinstance(symbol, textgen.NonterminalSymbol):
        return ("symbol", str(symbol))
    if isinstance(symbol, textgen.EvalSymbol):
        return ("value", _checked(symbol.expression))
    if isinstance(symbol, textgen.ListSymbol):
        return ("list", _node(symbol.symbol))
    if isinstance(symbol, textgen.ConditionalSymbol):
        return ("each", _node(symbol.expression), _query(symbol.given))
    raise GrammarError(f"the text grammar holds a {type(symbol).__name__}, which is not known.")


def _checked(expression: str) -> ast.expr:
    """The expression, once it is seen to hold nothing but names, attributes, texts, `+` and `or`: TextWorld gives these
    to `eval`, and game files come from anywhere."""
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise GrammarError(f"the text grammar holds {expression!r}, which is no expression.") from error
    for node in ast.walk(tree):
        allowed = (ast.Name, ast.Attribute, ast.BinOp, ast.Add, ast.BoolOp, ast.Or, ast.Constant, ast.Load)
        known = not isinstance(node, ast.Attribute) or (isinstance(node.value, ast.Name) and node.attr in _ATTRIBUTES)
        if not isinstance(node, allowed) or not known:
            raise GrammarError(f"the text grammar holds {expression!r}; only names of entities may be used there.")
    return tree


_ATTRIBUTES = ("name", "id", "definite", "indefinite")


def _value(tree: ast.expr, world: World, bound: Bindings) -> str:
    if isinstance(tree, ast.Constant):
        return str(tree.value)
    if isinstance(tree, ast.BinOp):
        return _value(tree.left, world, bound) + _value(tree.right, world, bound)
    if isinstance(tree, ast.BoolOp):
        return next((text for part in tree.values if (text := _value(part, world, bound))), "")
    name = tree.value if isinstance(tree, ast.Attribute) else tree
    assert isinstance(name, ast.Name)
    if name.id not in bound:
        raise GrammarError(f"the text grammar names {name.id!r} where it is not bound.")
    entity = bound[name.id]
    attribute = tree.attr if isinstance(tree, ast.Attribute) else "name"
    return {"name": world.names[entity], "id": entity, "definite": "the", "indefinite": "a"}[attribute]
