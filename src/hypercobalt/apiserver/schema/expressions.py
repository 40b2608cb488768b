"""CEL expressions of a policy: compiled once, evaluated against a write.

They see JSON values as they are. Their checker, which runs when a policy is written, has the
types of `request` and of the namespace and which variables are declared; objects may be of any
kind, so what is read from them is found wrong only when it is read.

Source: k8s.io/apiserver pkg/admission/plugin/cel (compile.go, composition.go).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from cel_expr_python import cel

from hypercobalt.apiserver.errors import JSON, JSONObject
from hypercobalt.apiserver.schema.blocks import compile_block, place
from hypercobalt.apiserver.schema.cel import (
    EvaluationError,
    RuleError,
    compile_expression,
    evaluate,
    untyped,
)
from hypercobalt.apiserver.schema.identifiers import LITERAL
from hypercobalt.apiserver.schema.node import Node
from hypercobalt.apiserver.values import objects_at, text_at

VARIABLES = "variables"
ROOTS = ("object", "oldObject", "request", "namespaceObject")
_IDENTIFIER = re.compile(rf"{LITERAL}|(?<![\w.])([A-Za-z_]\w*)")
_READ = re.compile(
    rf"{LITERAL}|\bhas\(\s*{VARIABLES}\s*\.\s*(\w+)\s*\)|(?<![\w.]){VARIABLES}\s*\.\s*(\w+)"
)


class Variable(NamedTuple):
    """A variable of a policy; its expression sees those that are declared before it."""

    name: str
    expression: str


Variables: TypeAlias = tuple[Variable, ...]


def variables_of(spec: JSONObject) -> Variables:
    """The variables that a policy declares."""
    declared = objects_at(spec, "variables")
    return tuple(Variable(text_at(v, "name"), text_at(v, "expression")) for v in declared)


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that can be evaluated; one that does not compile always fails."""

    source: str
    compiled: cel.Expression | None
    fault: str = ""
    declared: Variables = ()

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def of(source: str, declared: Variables = ()) -> Program:
        """Compile an expression, which takes milliseconds; the latest ones are remembered.

        Args:
            source: as written.
            declared: variables that it may read; each is evaluated at most once, on first use.
        """
        try:
            return Program(source, _compiled(source, declared), "", declared)
        except RuleError as error:  # of a policy that was not checked by this version
            return Program(source, None, str(error), declared)

    def variables(self) -> Iterator[tuple[str, Program]]:
        """The variables that the expression itself reads, by name."""
        names = _read(self.source)
        for number, variable in enumerate(self.declared):
            if variable.name in names:
                yield variable.name, Program.of(variable.expression, self.declared[:number])


def _compiled(source: str, declared: Variables) -> cel.Expression:
    names, needed = _read(source), list[Variable]()
    for variable in reversed(declared):
        if variable.name in names:
            needed.append(variable)
            names |= _read(variable.expression)
    if not needed:
        return compile_expression(untyped(ROOTS), source)
    places: dict[str, str] = {}

    def swap(match: re.Match[str]) -> str:
        if (known := places.get(match[1] or match[2])) is None:
            return match[0]
        return f"([{known}].size() == 1)" if match[1] else known

    values: list[str] = []
    for variable in reversed(needed):
        values.append(_READ.sub(swap, variable.expression))
        places[variable.name] = place(len(values) - 1)
    return compile_block(untyped(ROOTS), values, _READ.sub(swap, source))


def _read(expression: str) -> set[str]:
    """The names of the variables that an expression reads."""
    return {name for m in _READ.finditer(expression) if (name := m[1] or m[2])}


def whole_of(spec: JSONObject) -> Program:
    """All validations of a policy in one: it holds when each does, and they share variables."""
    each = (text_at(v, "expression") for v in objects_at(spec, "validations"))
    return Program.of(" && ".join(f"({expression}\n)" for expression in each), variables_of(spec))


class Scope:
    """What the expressions of all policies see of one write.

    Each object is converted for the engine once, when the first of them reads it.
    """

    def __init__(self, roots: Mapping[str, JSON]) -> None:
        self._seen = untyped(ROOTS).Activation(roots)

    def holds(self, program: Program) -> bool:
        """Whether an expression has a value, which is true."""
        try:
            return self._run(program) is True
        except EvaluationError:
            return False

    def value(self, program: Program) -> object:
        """The value of an expression.

        Raises:
            EvaluationError: it has none; the text is kube-apiserver's.
        """
        try:
            return self._run(program)
        except EvaluationError as error:
            through = self._through(program, str(error))
            text = f"expression '{program.source}' resulted in error: {through}{error}"
            raise EvaluationError(text) from error

    def _run(self, program: Program) -> object:
        if program.compiled is None:
            raise EvaluationError(program.fault)
        return evaluate(program.compiled, self._seen)

    def _through(self, program: Program, failure: str) -> str:
        """Name the variables by which an expression comes to its failure."""
        for name, variable in program.variables():
            try:
                self._run(variable)
            except EvaluationError as error:
                if str(error) == failure:
                    through = f'composited variable "{name}" fails to evaluate: '
                    return through + self._through(variable, failure)
        return ""


def roots_in(expression: str) -> frozenset[str]:
    """The identifiers of an expression that are no fields, no variables and stand in no text."""
    others = _READ.sub(lambda match: "" if match[1] or match[2] else match[0], expression)
    return frozenset(m[1] for m in _IDENTIFIER.finditer(others) if m[1])


# -- checking ----------------------------------------------------------------------------------

_TEXT, _ANY = Node(type="string"), Node(int_or_string=True)


def _struct(*names: str, **fields: Node) -> Node:
    return Node(type="object", fields={**dict.fromkeys(names, _TEXT), **fields})


_LABELS = Node(type="object", values=_TEXT)
_TEXTS = Node(type="array", items=_TEXT)
_KIND, _RESOURCE = (_struct("group", "version", name) for name in ("kind", "resource"))
REQUEST = _struct(
    *("name", "namespace", "operation", "subResource", "requestSubResource"),
    kind=_KIND,
    requestKind=_KIND,
    resource=_RESOURCE,
    requestResource=_RESOURCE,
    userInfo=_struct("username", "uid", groups=_TEXTS, extra=Node(type="object", values=_TEXTS)),
    dryRun=Node(type="boolean"),
    options=_ANY,
)
NAMESPACE = _struct(
    "apiVersion",
    "kind",
    metadata=_struct(
        *("name", "generateName", "namespace", "uid", "resourceVersion"),
        labels=_LABELS,
        annotations=_LABELS,
        creationTimestamp=Node(type="string", format="date-time"),
        deletionTimestamp=Node(type="string", format="date-time"),
        deletionGracePeriodSeconds=Node(type="integer"),
        generation=Node(type="integer"),
        finalizers=_TEXTS,
    ),
    spec=_struct(finalizers=_TEXTS),
    status=_struct("phase"),
)


class Checked:
    """The environment in which the expressions of a policy are checked."""

    def __init__(self, variables: Iterable[str] = ()) -> None:
        from hypercobalt.apiserver.schema.checker import Checker  # noqa: PLC0415  # a start needs none

        declared = {
            "object": _ANY,
            "oldObject": _ANY,
            "request": REQUEST,
            "namespaceObject": NAMESPACE,
            VARIABLES: Node(type="object", fields=dict.fromkeys(variables, _ANY)),
        }
        root = Node(type="object", fields=declared)
        self._environment = Checker(root).variables(declared)

    def fault(self, expression: str, wanted: Mapping[str, cel.Type] | None = None) -> str:
        """Why an expression is refused; empty when it is not.

        Args:
            expression: to check.
            wanted: the types that it may have, by the name that a refusal uses.
        """
        try:
            compiled = compile_expression(self._environment, expression)
        except RuleError as error:
            return str(error)
        if wanted and compiled.return_type() not in (*wanted.values(), cel.Type.DYN):
            return f"must evaluate to {' or '.join(wanted)}"
        return ""
