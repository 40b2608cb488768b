"""CEL expressions of a policy: compiled once, evaluated against a write.

They see JSON values as they are. Their checker, which runs when a policy is written, has the
types of `request` and of the namespace and which variables are declared; objects may be of any
kind, so what is read from them is found wrong only when it is read.

Source: k8s.io/apiserver pkg/admission/plugin/cel (compile.go, composition.go).
"""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from cel_expr_python import cel

from hypercobalt.apiserver.errors import JSON
from hypercobalt.apiserver.schema.cel import (
    EvaluationError,
    RuleError,
    compile_expression,
    evaluate,
    untyped,
)
from hypercobalt.apiserver.schema.identifiers import LITERAL
from hypercobalt.apiserver.schema.node import Node

VARIABLES = "variables"
ROOTS = ("object", "oldObject", "request", "namespaceObject")
_IDENTIFIER = re.compile(rf"{LITERAL}|(?<![\w.])([A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True)
class Program:
    """An expression that can be evaluated; one that does not compile always fails."""

    source: str
    compiled: cel.Expression | None
    fault: str = ""
    composed: bool = False  # it reads variables

    @staticmethod
    @functools.lru_cache(maxsize=1024)
    def of(source: str) -> Program:
        """Compile an expression, which takes milliseconds; the latest ones are remembered."""
        composed = VARIABLES in names_in(source)
        try:
            compiled = compile_expression(untyped((*ROOTS, VARIABLES)), source)
            return Program(source, compiled, "", composed)
        except RuleError as error:  # of a policy that was not checked by this version
            return Program(source, None, str(error), composed)


class Scope:
    """What the expressions of one policy see of one write; variables are evaluated once.

    A variable that fails is a failure only of an expression that reads it.
    """

    def __init__(self, roots: Mapping[str, JSON], variables: Mapping[str, Program]) -> None:
        self._roots, self._declared = roots, variables
        self._failed: dict[str, EvaluationError] = {}

    @functools.cached_property
    def _plain(self) -> cel.Activation:
        return untyped((*ROOTS, VARIABLES)).Activation({**self._roots, VARIABLES: {}})

    @functools.cached_property
    def _composed(self) -> cel.Activation:
        known: dict[str, object] = {}
        environment = untyped((*ROOTS, VARIABLES))
        for name, program in self._declared.items():
            seen = self._plain
            if program.composed:
                seen = environment.Activation({**self._roots, VARIABLES: known})
            try:
                known[name] = _as_given(self._run(program, seen))
            except EvaluationError as error:
                self._failed[name] = error
        return environment.Activation({**self._roots, VARIABLES: known})

    def value(self, program: Program) -> object:
        """The value of an expression.

        Raises:
            EvaluationError: it has none; the text is kube-apiserver's.
        """
        try:
            return self._run(program, self._composed if program.composed else self._plain)
        except EvaluationError as error:
            text = f"expression '{program.source}' resulted in error: {error}"
            raise EvaluationError(text) from error

    def _run(self, program: Program, seen: cel.Activation) -> object:
        if program.compiled is None:
            raise EvaluationError(program.fault)
        try:
            return evaluate(program.compiled, seen)
        except EvaluationError as error:
            name = str(error).removeprefix("no such key: ")
            if name not in self._failed:
                raise
            text = f'composited variable "{name}" fails to evaluate: {self._failed[name]}'
            raise EvaluationError(text) from error


def _as_given(value: object) -> object:
    """A value as it can be given back to the engine, which takes times as messages only."""
    from google.protobuf import duration_pb2, timestamp_pb2  # noqa: PLC0415  # few variables need it

    if isinstance(value, datetime.timedelta):
        span = duration_pb2.Duration()
        span.FromTimedelta(value)
        return span
    if isinstance(value, datetime.datetime):
        moment = timestamp_pb2.Timestamp()
        moment.FromDatetime(value)
        return moment
    return value


def names_in(expression: str) -> frozenset[str]:
    """The identifiers of an expression that are no fields and stand in no text."""
    return frozenset(m[1] for m in _IDENTIFIER.finditer(expression) if m[1])


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
