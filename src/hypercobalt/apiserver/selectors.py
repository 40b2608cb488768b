"""Label and field selectors: parse once, ask per object.

Source: apimachinery pkg/labels/selector.go and pkg/fields/selector.go.
"""

from __future__ import annotations

import re
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
_SETS = {"in": "in", "notin": "notin"}
_COMPARISONS = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[str] = []
        place = 0
        text = text.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:  # pragma: no cover - every character starts a token
                raise bad_request(f"unable to parse requirement: {text[place:]!r}")
            self._tokens.append(match[1])
            place = match.end()
        self._next = 0

    def parse(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        while self._peek():
            found.append(self._requirement())
            if not self._peek():
                break
            separator = self._take()
            if separator != ",":
                raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
            if not self._peek():
                raise bad_request("found '', expected: identifier after ','")
        return tuple(found)

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._take()
        if not key or key in "(),<>=!":
            raise bad_request(f"found '{key}', expected: !, identifier, or 'end of string'")
        if errors := label_key_errors(key):
            raise _bad(f'<nil>: Invalid value: "{key}": {"; ".join(errors)}')
        operator = self._peek()
        if negated:
            return Requirement(key, "absent")
        if operator in ("", ","):
            return Requirement(key, "exists")
        self._take()
        if operator in _SETS:
            return self._checked(Requirement(key, _SETS[operator], self._values()))
        if operator in _COMPARISONS:
            value = "" if self._peek() in ("", ",") else self._take()
            if value in _COMPARISONS:
                raise _bad(f"found '{value}', expected: identifier")
            return self._checked(Requirement(key, _COMPARISONS[operator], (value,)))
        raise _bad(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")

    def _values(self) -> tuple[str, ...]:
        if (token := self._take()) != "(":
            raise _bad(f"found '{token}' expected: '('")
        values: list[str] = []
        expect_value = True
        while (token := self._take()) != ")":
            comma = token == ","  # noqa: S105  # of a selector
            if not token or not (comma or expect_value):
                raise _bad(f"found '{token}', expected: ',' or ')'")
            if not comma or expect_value:
                values.append("" if comma else token)
            expect_value = comma
        if expect_value:
            values.append("")
        return tuple(sorted(set(values)))

    def _checked(self, requirement: Requirement) -> Requirement:
        for index, value in enumerate(requirement.values):
            if errors := label_value_errors(value):
                raise _bad(
                    f'values[{index}][{requirement.key}]: Invalid value: "{value}": '
                    f"{'; '.join(errors)}"
                )
        if requirement.operator in ("gt", "lt") and _integer(requirement.values[0]) is None:
            raise _bad(
                f'values[0]: Invalid value: "{requirement.values[0]}": '
                "for 'Gt', 'Lt' operators, the value must be an integer"
            )
        return requirement

    def _peek(self) -> str:
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._next += 1
        return token


def _bad(detail: str) -> Exception:
    return bad_request(f"unable to parse requirement: {detail}")


def parse_labels(text: str) -> tuple[Requirement, ...]:
    """Parse a label selector; empty text selects everything.

    Raises:
        StatusError: 400 naming what does not parse.
    """
    return _Parser(text).parse()


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
