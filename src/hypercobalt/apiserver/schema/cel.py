"""CEL rules of CustomResourceDefinitions: compile once, evaluate against self and oldSelf.

The engine is Google's C++ CEL, with dynamically typed variables. What it does not bound by itself
is bounded here: the length of a rule; what it sees is bounded by the request body's limit. The
engine returns evaluation errors as values; here they are failures of the rule, as in Kubernetes.

Source: apiextensions `x-kubernetes-validations` (types.go, ValidationRule), KEP-2876.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from hypercobalt.apiserver.schema.node import Node, Rule
from hypercobalt.apiserver.schema.patterns import compile_pattern
from hypercobalt.apiserver.status import JSON
from hypercobalt.errors import HypercobaltError

MAX_EXPRESSION = 8 * 1024  # characters; the real server bounds the cost instead

# A string literal, or an identifier path that starts at one of the two variables.
_LITERAL = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_TOKENS = re.compile(rf"({_LITERAL})|(?<![\w.])(oldSelf|self)((?:\.\w+(?!\w*\s*\())*)")

_MISSING_KEY = re.compile(r'^NOT_FOUND: Key not found in map : "(.*)"$')

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)


class RuleError(HypercobaltError):
    """A rule does not compile."""


class MessageError(RuleError):
    """The messageExpression of a rule does not compile."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule that can be asked whether it holds."""

    source: Rule
    transition: bool  # reads oldSelf: skipped where there is no old value
    _with_old: cel.Expression
    _without_old: cel.Expression
    _message: cel.Expression | None

    def failure(self, node: Node, value: JSON, old: JSON, *, has_old: bool) -> str | None:
        """None when the rule holds for a value of `node`; else the message to report."""
        if self.transition and not has_old and not self.source.optional_old_self:
            return None
        expression = self._with_old if has_old else self._without_old
        if "__" in self.source.rule:
            value, old = _escape_fields(node, value), _escape_fields(node, old)
        data = {"self": value, "oldSelf": old}
        try:
            result = expression.eval(data=data)
            if result.type() == cel.Type.BOOL:
                return None if result.value() else self._text(data)
            why = _MISSING_KEY.sub(r"no such key: \1", str(result.value()))
        except RuntimeError as error:  # out of turns
            why = str(error)
        rule = self.source.message or self.source.rule.strip()
        return f'"{node.type}": {why} evaluating rule: {rule}'

    def _text(self, data: dict[str, JSON]) -> str:
        if self._message is not None:
            result = self._message.eval(data=data)
            if result.type() == cel.Type.STRING and str(result.value()).strip():
                return str(result.value())
        if self.source.message:
            return self.source.message
        return f"failed rule: {self.source.rule.strip()}"


def compile_rule(rule: Rule, node: Node) -> CompiledRule:
    """Compile a rule of `node`; the same rule is compiled once per process.

    Raises:
        RuleError: it is too long, does not parse or does not type-check.
    """
    if len(rule.rule) > MAX_EXPRESSION:
        raise RuleError(f"longer than {MAX_EXPRESSION} characters")
    return _compile_rule(rule, _with_typed_fields(rule.rule, node))


_TYPED_FORMATS = {"date-time": "timestamp", "date": "timestamp", "duration": "duration"}


def _with_typed_fields(expression: str, node: Node) -> str:
    """The rule with fields of a time format read as times: JSON knows them as text only."""

    def convert(match: re.Match[str]) -> str:
        before = expression[: match.start()].rstrip()
        if not match[2] or before.endswith(("has(", "timestamp(", "duration(")):
            return match[0]
        here: Node | None = node
        for name in match[3].split(".")[1:]:
            here = here.fields.get(_unescape(name)) if here is not None else None
        function = _TYPED_FORMATS.get(here.format) if here is not None else None
        return f"{function}({match[0]})" if function else match[0]

    return _TOKENS.sub(convert, expression)


@functools.cache
def _compile_rule(rule: Rule, plain: str) -> CompiledRule:
    transition = bool(_uses_old(plain))
    if rule.optional_old_self:
        present = _replace_old(plain, "optional.of(oldSelf)")
        absent = _replace_old(plain, "optional.none()")
    else:
        present = absent = plain
    with_old = _compile(present)
    if with_old.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise RuleError("cel expression must evaluate to a bool")
    without = with_old if absent == present else _compile(absent)
    try:
        message = _compile(rule.message_expression) if rule.message_expression else None
    except RuleError as error:
        raise MessageError(str(error)) from error
    return CompiledRule(rule, transition, with_old, without, message)


def undeclared_fields(rule: Rule, node: Node) -> list[str]:
    """The field names that a rule reads from self or oldSelf and `node` does not declare."""
    missing: list[str] = []
    for literal, variable, path in _TOKENS.findall(rule.rule):
        if literal or not variable:
            continue
        here: Node | None = node
        for name in path.split(".")[1:]:
            if here is None or here.type != "object" or here.opaque or here.values is not None:
                break
            if here.embedded and name in ("apiVersion", "kind", "metadata"):
                break
            here = here.fields.get(_unescape(name))
            if here is None:
                missing.append(name)
    return missing


def _compile(expression: str) -> cel.Expression:
    try:
        return _environment().compile(expression)
    except (RuntimeError, ValueError) as error:
        text = str(error).removeprefix("INVALID_ARGUMENT: ").removesuffix(" [INVALID_ARGUMENT]")
        raise RuleError(text) from error


@functools.cache
def _environment() -> cel.Env:
    variables = {"self": cel.Type.DYN, "oldSelf": cel.Type.DYN}
    extensions = [ext_strings.ExtStrings(), ext_optional.ExtOptional()]
    return cel.NewEnv(variables=variables, extensions=extensions, functions=_list_functions())


def _list_functions() -> list[cel.FunctionDecl]:
    """Kubernetes' list and regex libraries (k8s.io/apiserver, pkg/cel/library)."""
    any_list, dyn, text = cel.Type.List(cel.Type.DYN), cel.Type.DYN, cel.Type.STRING

    def method(
        name: str, result: cel.Type, parameters: Sequence[cel.Type], impl: Callable[..., JSON]
    ) -> cel.FunctionDecl:
        overload = cel.Overload(
            id=f"kubernetes_{name}",
            return_type=result,
            parameters=parameters,
            is_member=True,
            impl=impl,
        )
        return cel.FunctionDecl(name, [overload])

    return [
        method("sum", dyn, [any_list], _sum),
        method("min", dyn, [any_list], _least),
        method("max", dyn, [any_list], _most),
        method("isSorted", cel.Type.BOOL, [any_list], _is_sorted),
        method("find", text, [text, text], _find),
        method("findAll", cel.Type.List(text), [text, text], _find_all),
    ]


def _sum(items: list[float]) -> JSON:
    return sum(items)


def _least(items: list[float]) -> JSON:
    return min(items)


def _most(items: list[float]) -> JSON:
    return max(items)


def _is_sorted(items: list[float]) -> JSON:
    return items == sorted(items)


def _find(value: str, pattern: str) -> str:
    match = compile_pattern(pattern).search(value)
    return match.group() if match else ""


def _find_all(value: str, pattern: str) -> list[JSON]:
    return [match.group() for match in compile_pattern(pattern).finditer(value)]


def _uses_old(expression: str) -> bool:
    return any(variable == "oldSelf" for _, variable, _ in _TOKENS.findall(expression))


def _replace_old(expression: str, replacement: str) -> str:
    def swap(match: re.Match[str]) -> str:
        return replacement + match[3] if match[2] == "oldSelf" else match[0]

    return _TOKENS.sub(swap, expression)


# Property names that are no CEL identifiers are written escaped in rules (types.go, "Rule").
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SPECIAL = re.compile(r"__|[.\-/]")


def _escape(name: str) -> str:
    if name in _RESERVED:
        return f"__{name}__"
    return _SPECIAL.sub(lambda match: _ESCAPES[match[0]], name)


def _unescape(name: str) -> str:
    for plain, escaped in _ESCAPES.items():
        name = name.replace(escaped, plain)
    inner = name.removeprefix("__").removesuffix("__")
    return inner if inner in _RESERVED else name


def _escape_fields(node: Node, value: JSON) -> JSON:
    """The value as rules see it: declared fields under escaped names, map keys as they are."""
    if isinstance(value, dict):
        return {
            _escape(name) if name in node.fields else name: _escape_fields(
                node.child(name) or node, item
            )
            for name, item in value.items()
        }
    if isinstance(value, list) and node.items is not None:
        return [_escape_fields(node.items, item) for item in value]
    return value
