"""Label and field selectors: parse once, ask per object.

Source: apimachinery pkg/labels/selector.go and pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypercobalt.apiserver.kinds.names import label_key_errors, label_value_errors
from hypercobalt.apiserver.status import bad_request

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: str  # exists, absent, in, notin, gt, lt
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case "exists":
                return value is not None
            case "absent":
                return value is None
            case "in":
                return value is not None and value in self.values
            case "notin":
                return value is None or value not in self.values
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        left, right = _integer(value), _integer(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == "gt" else left < right


def _integer(text: str) -> int | None:
    """As Go's ParseInt for 64 bits: Python's int takes more."""
    number = int(text) if re.fullmatch(r"-?[0-9]{1,30}", text, re.ASCII) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


_TOKEN = re.compile(r"\s*(==|!=|=|[(),!<>]|[^\s=!(),<>]+)")
_END = ""
_COMPARISONS = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector; empty text selects everything.

    Raises:
        StatusError: 400 naming what does not parse.
    """
    tokens = deque([*_TOKEN.findall(text.rstrip()), _END])
    found: list[Requirement] = []
    separator = "," if tokens[0] else _END
    while separator:
        if separator != ",":
            raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
        if found and not tokens[0]:
            raise bad_request("found '', expected: identifier after ','")
        found.append(_requirement(tokens))
        separator = _take(tokens)
    return tuple(found)


def _take(tokens: deque[str]) -> str:
    return tokens.popleft() if tokens[0] else _END


def _requirement(tokens: deque[str]) -> Requirement:
    negated = tokens[0] == "!" and _take(tokens)
    key = _take(tokens)
    if not key or key in "(),<>=!":
        raise bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
    if errors := label_key_errors(key):
        raise _bad(f'<nil>: Invalid value: "{key}": {"; ".join(errors)}')
    if negated:
        return Requirement(key, "absent")
    if tokens[0] in (_END, ","):
        return Requirement(key, "exists")
    operator = _take(tokens)
    if operator in ("in", "notin"):
        return _checked(Requirement(key, operator, _values(tokens)))
    if operator not in _COMPARISONS:
        raise _bad(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    value = "" if tokens[0] == "," else _take(tokens)
    if value in _COMPARISONS:
        raise _bad(f"found '{value}', expected: identifier")
    return _checked(Requirement(key, _COMPARISONS[operator], (value,)))


def _values(tokens: deque[str]) -> tuple[str, ...]:
    if (token := _take(tokens)) != "(":
        raise _bad(f"found '{token}' expected: '('")
    listed = ","
    while (token := _take(tokens)) != ")":
        if not token or (token != "," and listed[-1] != ","):  # noqa: S105  # of a selector
            raise _bad(f"found '{token}', expected: ',' or ')'")
        listed += token
    return tuple(sorted(set(listed[1:].split(","))))


def _checked(requirement: Requirement) -> Requirement:
    for index, value in enumerate(requirement.values):
        if errors := label_value_errors(value):
            text = f'values[{index}][{requirement.key}]: Invalid value: "{value}"'
            raise _bad(f"{text}: {'; '.join(errors)}")
        if requirement.operator in ("gt", "lt") and _integer(value) is None:
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _bad(f'values[0]: Invalid value: "{value}": {text}')
    return requirement


def _bad(detail: str) -> Exception:
    return bad_request(f"unable to parse requirement: {detail}")


@dataclass(frozen=True, slots=True)
class FieldTerm:
    """One term of a field selector."""

    field: str
    value: str
    equal: bool

    def matches(self, read: Callable[[str], str]) -> bool:
        return (read(self.field) == self.value) is self.equal


def parse_fields(text: str) -> tuple[FieldTerm, ...]:
    """Parse a field selector; empty text selects everything.

    Raises:
        StatusError: 400 naming what does not parse.
    """
    terms: list[FieldTerm] = []
    for term in re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL):
        match = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append(FieldTerm(match[1], _unescape(match[3]), match[2] != "!="))
    return tuple(terms)


def _unescape(value: str) -> str:
    plain = ""
    for token in re.findall(r"\\.?|[=,]|[^\\=,]+", value, re.DOTALL):
        if token in ("=", ","):
            text = f"unescaped character in value: {ord(token)}"
            raise bad_request(f"invalid field selector: {text}")
        if token[0] == "\\" and token[1:] not in ("\\", ",", "="):
            raise bad_request(f"invalid field selector: invalid escape sequence: {token}")
        plain += token.removeprefix("\\") if len(token) > 1 and token[0] == "\\" else token
    return plain
