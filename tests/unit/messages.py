"""Has the tests of a room call each rule twice: as they do, and with each message replaced by "x".

Both must decide the same. Whatever a test of a rule gives it, this is tested too, of a new rule as
well: a directory's `conftest.py` calls `decide_twice`, before the tests there import their rules.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import operator
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Final, TypeVar, cast

import msgspec
import pytest
from tests.pages import ROOT

T = TypeVar("T")
C = TypeVar("C", bound=Collection[object])
Rule = Callable[..., object]

SOURCE: Final = ROOT / "src/hypercobalt"
RULES: Final = frozenset(
    {"accepts", "assess", "assess_one", "cancel", "decide", "desired", "health", "judge", "plan"}
    | {"questions", "remedy", "settled"}
)
"""Names of functions that are rules."""

TEXTS: Final = frozenset({"message", "text", "fault", "lastFailure"})
"""Fields that are for people."""


def decide_twice(room: str) -> None:
    """Put every rule of a room of `src/hypercobalt` under the test."""
    for path in sorted((SOURCE / room).rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = [one.name for one in tree.body if isinstance(one, ast.FunctionDef)]
        for name in RULES.intersection(names):
            parts = path.relative_to(SOURCE.parent).with_suffix("").parts
            module = importlib.import_module(".".join(parts))
            setattr(module, name, twice(getattr(module, name)))


def twice(rule: Rule) -> Rule:
    """The same rule; it fails where a message makes a difference."""

    @functools.wraps(rule)
    def decided(*args: object, **named: object) -> object:
        given = tuple(tuple(one) if isinstance(one, Iterator) else one for one in args), named
        found = rule(*given[0], **given[1])
        texts = {"x"}
        plain_args, plain_named = plain = unworded(given, texts)
        if plain is not given:
            again = rule(*plain_args, **plain_named)
            assert for_programs(again, texts) == for_programs(found, texts)
        return found

    return decided


def decide_once(patch: pytest.MonkeyPatch) -> None:
    """Have the rules called once again: where what a rule reads is noted, or its code changed."""
    for name, module in tuple(sys.modules.items()):
        for rule in RULES if name.startswith("hypercobalt.") else ():
            if (found := getattr(module, rule, None)) is not None:
                patch.setattr(module, rule, inspect.unwrap(found))


def unworded(given: T, texts: set[str]) -> T:
    """The same with each message replaced by "x"; `texts` takes in what they were."""

    def member(name: str, known: object) -> object:
        if name not in TEXTS or type(known) is not str:
            return unworded(known, texts)
        texts.add(known)
        return "x"

    return cast("T", rebuilt(given, member))


def for_programs(found: T, texts: set[str]) -> T:
    """The same with "x" for what is for people: the messages that were given, and all with spaces.

    A reason, a name or a time that a rule gives has no space.
    """

    def member(name: str, known: object) -> object:
        if type(known) is str and (name in TEXTS or known in texts or " " in known):
            return "x"
        return for_programs(known, texts)

    return cast("T", rebuilt(found, member))


def rebuilt(given: object, member: Callable[[str, object], object]) -> object:
    """A value with its members changed, each by its name; the value itself where none has."""
    if isinstance(given, dict):
        return kept(given, {key: member("", one) for key, one in given.items()})
    if type(given) is tuple:
        return kept(given, tuple(member("", one) for one in given))
    if type(given) is list:
        return kept(given, [member("", one) for one in given])
    before = {name: getattr(given, name) for name in field_names(given)}
    after = kept(before, {name: member(name, one) for name, one in before.items()})
    if after is before:
        return given
    if isinstance(given, msgspec.Struct):
        return msgspec.structs.replace(given, **after)
    assert is_dataclass(given)
    assert not isinstance(given, type)
    return replace(given, **after)


def kept(before: C, after: C) -> C:
    """A collection as it was where none of its members has changed."""
    pairs = (one.values() if isinstance(one, dict) else one for one in (before, after))
    return before if all(map(operator.is_, *pairs)) else after


def field_names(given: object) -> tuple[str, ...]:
    """The names of the fields of a struct or a dataclass; none for any other value."""
    if isinstance(given, msgspec.Struct):
        return given.__struct_fields__
    if not is_dataclass(given) or isinstance(given, type):
        return ()
    return tuple(one.name for one in fields(given) if one.init)
