"""CEL rules of CustomResourceDefinitions: compile once, evaluate against self and oldSelf.

The engine is Google's C++ CEL. When a definition is written, its rules are checked with the types
of the schema (`checker`). They run without types, on the JSON values as they are. The engine stops
an evaluation after 10,000 turns of its loops; its errors are failures of the rule, as in
Kubernetes.

Source: apiextensions `x-kubernetes-validations` (types.go, ValidationRule), KEP-2876.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import re
from dataclasses import dataclass
from typing import Protocol

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from hypercobalt.api.duration import parse_nanoseconds
from hypercobalt.apiserver.errors import JSON
from hypercobalt.apiserver.schema.identifiers import LITERAL, OLD_SELF, escape
from hypercobalt.apiserver.schema.library import RENAMED, UNSERVED, declarations
from hypercobalt.apiserver.schema.node import CompiledRule, Node, Rule
from hypercobalt.errors import HypercobaltError

MAX_EXPRESSION = 8 * 1024  # characters

# A string literal, a variable that is not a field, or a method with another name in the engine.
_TOKENS = re.compile(rf"({LITERAL})|{OLD_SELF}|\b({'|'.join(RENAMED)})(?=\s*\()")
_OPTIONAL = "optional.of(oldSelf)"

_MISSING_KEY = re.compile(r'^NOT_FOUND: Key not found in map : "(.*)"$')
_SELF = ("self", "oldSelf")  # the variables of rules


class RuleError(HypercobaltError):
    """A rule does not compile."""


class EvaluationError(HypercobaltError):
    """An expression has no value: a key is missing, a type does not fit, or it took too long."""


class MessageError(RuleError):
    """The messageExpression of a rule does not compile."""


@dataclass(frozen=True, slots=True)
class CelRule:
    """A `CompiledRule` of the engine."""

    source: Rule
    _node: Node
    _converted: bool  # values are not seen as they are
    _with_old: cel.Expression
    _without_old: cel.Expression
    _message: cel.Expression | None

    def failure(self, value: JSON, old: JSON) -> str | None:
        if old is None and self.source.transition and not self.source.optional_old_self:
            return None
        expression = self._without_old if old is None else self._with_old
        data: dict[str, JSON] = {"self": value, "oldSelf": old}
        values: dict[str, object] = {**data}
        if self._converted:
            values = {name: _seen(self._node, item) for name, item in data.items()}
        seen = untyped(_SELF).Activation(values)
        try:
            return None if evaluate(expression, seen) is True else self._text(seen)
        except EvaluationError as error:
            rule = self.source.message or self.source.rule.strip()
            return f'"{self._node.type}": {error} evaluating rule: {rule}'

    def _text(self, seen: cel.Activation) -> str:
        if self._message is not None:
            with contextlib.suppress(EvaluationError):
                result = evaluate(self._message, seen)
                if isinstance(result, str) and result.strip():
                    return result
        if self.source.message:
            return self.source.message
        return f"failed rule: {self.source.rule.strip()}"


def compile_rule(rule: Rule, node: Node) -> CompiledRule:
    """Compile a rule of `node` to be evaluated; the node keeps it.

    Raises:
        RuleError: it is too long or does not parse.
    """
    if (found := node.compiled.get(rule)) is None:
        found = node.compiled[rule] = _compiled(rule, node)
    return found


def _compiled(rule: Rule, node: Node) -> CelRule:
    optional = rule.transition and bool(rule.optional_old_self)
    with_old = compile_expression(untyped(_SELF), rule.rule, _OPTIONAL if optional else "oldSelf")
    without = with_old
    if optional:
        without = compile_expression(untyped(_SELF), rule.rule, "optional.none()")
    message = None
    if rule.message_expression:
        try:
            message = compile_expression(untyped(_SELF), rule.message_expression)
        except RuleError as error:
            raise MessageError(str(error)) from error
    converted = any(below.format in _CONVERTED for below in node.walk()) or "__" in rule.rule
    return CelRule(rule, node, converted, with_old, without, message)


class Environment(Protocol):
    """Gives the environment in which a rule is checked."""

    def __call__(self, *, loose: bool = False) -> cel.Env:
        """Return an environment with exact types, or, if `loose`, with numbers of any type."""
        ...


def check_rule(rule: Rule, environment_of: Environment) -> None:
    """Check a rule with the types of its schema.

    Args:
        rule: to check.
        environment_of: the loose one is for rules that compare integers with other numbers,
            which this engine's checker takes for an error.

    Raises:
        RuleError: it is too long, does not parse, does not fit the schema or is no condition.
        MessageError: the same of its messageExpression, which must be text.
    """
    old = _OPTIONAL if rule.optional_old_self else "oldSelf"
    environment = environment_of()
    try:
        checked = compile_expression(environment, rule.rule, old)
    except RuleError as error:
        if _MIXED_NUMBERS.sub("", str(error)):
            raise
        environment = environment_of(loose=True)
        checked = compile_expression(environment, rule.rule, old)
    if checked.return_type() != cel.Type.BOOL:
        raise RuleError("cel expression must evaluate to a bool")
    if rule.message_expression:
        try:
            message = compile_expression(environment, rule.message_expression, old)
        except RuleError as error:
            raise MessageError(f"messageExpression {error}") from error
        if message.return_type() != cel.Type.STRING:
            raise MessageError("messageExpression must evaluate to a string")


def evaluate(expression: cel.Expression, seen: cel.Activation) -> object:
    """The value of an expression, without CEL's types; what it sees is converted once.

    Raises:
        EvaluationError: it has none.
    """
    try:
        result = expression.eval(activation=seen)
    except RuntimeError as error:  # out of turns, or a function of ours failed
        raise EvaluationError(str(error)) from error
    if result.type() == cel.Type.ERROR:
        raise EvaluationError(_MISSING_KEY.sub(r"no such key: \1", str(result.value())))
    return result.plain_value()


def compile_expression(
    environment: cel.Env, expression: str, old: str = "oldSelf", *, parsed: bool = False
) -> cel.Expression:
    """Compile an expression with Kubernetes' names of functions.

    Args:
        environment: its variables and functions.
        expression: as written.
        old: what stands for `oldSelf`.
        parsed: whether it is only parsed, and what it reads and calls found when it is evaluated.

    Raises:
        RuleError: it is too long, does not parse or does not fit the environment.
    """
    if len(expression) > MAX_EXPRESSION:
        raise RuleError(f"compilation failed: longer than {MAX_EXPRESSION} characters")

    def swap(match: re.Match[str]) -> str:
        return old if match[2] else RENAMED.get(match[3], match[0])

    try:
        return environment.compile(_TOKENS.sub(swap, expression), disable_check=parsed)
    except (RuntimeError, ValueError) as error:
        text = str(error)
        if unserved := UNSERVED & {*_UNDECLARED.findall(text)}:
            named = ", ".join(sorted(unserved))
            text = f"the embedded API server does not serve the CEL function {named}"
        raise RuleError(f"compilation failed: {_translated(text, old)}") from error


_UNDECLARED = re.compile(r"undeclared reference to '(\w+)'")
_FAULT = r"ERROR: <input>:\d+:\d+: {}(?:\n \|.*)*\n?"
_FOLLOWS = re.compile(_FAULT.format(r"expression of type '\*error\*'.*"))
_MIXED_NUMBERS = re.compile(
    r"^compilation failed: |"
    + _FAULT.format(r"found no .* '_[<>]=?_' applied to '\((?:int|double), (?:int|double)\)'")
)
_WORDS = (
    (re.compile(r"^INVALID_ARGUMENT: | \[INVALID_ARGUMENT\]$"), ""),
    (_FOLLOWS, ""),
    (re.compile(r" not found in struct '[\w.]+'"), ""),
    (re.compile(r"google\.protobuf\.Timestamp"), "timestamp"),
    (re.compile(r"google\.protobuf\.Duration"), "duration"),
    (re.compile(r"schema\.Object\d+"), "object"),
)


def _translated(text: str, old: str) -> str:
    """An error of the engine, with the names of the rule and of Kubernetes."""
    for name, other in RENAMED.items():
        text = text.replace(other, name)
    text = text.replace(old, "oldSelf")
    for pattern, words in _WORDS:
        text = pattern.sub(words, text)
    return text.strip()


@functools.cache
def untyped(variables: tuple[str, ...]) -> cel.Env:
    """What is evaluated in: values without types, functions by the form of their values."""
    text, any_list = cel.Type.STRING, cel.Type.List(cel.Type.DYN)
    mapping = cel.Type.Map(text, cel.Type.DYN)
    forms = [text, cel.Type.INT, cel.Type.DOUBLE, cel.Type.BOOL, any_list, mapping]
    types = {
        "Quantity": [mapping],
        "bool": [cel.Type.BOOL],
        "double": [cel.Type.DOUBLE],
        "int": [cel.Type.INT],
        "list": [any_list],
        "string": [text],
        "strings": [cel.Type.List(text)],
    }
    return cel.NewEnv(
        variables=dict.fromkeys(variables, cel.Type.DYN),
        extensions=[ext_strings.ExtStrings(), ext_optional.ExtOptional()],
        functions=declarations({**types, "dyn": forms}, {**types, "dyn": [cel.Type.DYN]}),
    )


# -- values as rules see them ------------------------------------------------------------------

_CONVERTED = ("byte", "date", "date-time", "duration")


def _seen(node: Node, value: JSON) -> object:
    """The value as rules see it: times are times; fields have their escaped names, too."""
    if isinstance(value, dict):
        seen = {name: _seen(node.child(name) or node, item) for name, item in value.items()}
        return {**seen, **{escape(name): seen[name] for name in seen if name in node.fields}}
    if isinstance(value, list):
        return [_seen(node.items, item) for item in value] if node.items else value
    if isinstance(value, str) and node.format in _CONVERTED:
        try:
            return _of_format(node.format, value)
        except ValueError:
            return value  # an old value that was never valid
    return value


def _of_format(name: str, text: str) -> object:
    from google.protobuf import duration_pb2, timestamp_pb2  # noqa: PLC0415  # few rules need it

    if name == "byte":
        return base64.b64decode(text)
    if name == "duration":
        span = duration_pb2.Duration()
        span.FromNanoseconds(parse_nanoseconds(text))
        return span
    moment = timestamp_pb2.Timestamp()
    moment.FromJsonString(text if name == "date-time" else f"{text}T00:00:00Z")
    return moment
