"""Label and field selectors: parse once, match per object.

What a question costs depends on the object's labels, not on the selector's length: terms are looked
up by the labels that are there, and few may be about one key.

Source: apimachinery pkg/labels/selector.go and pkg/fields/selector.go.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hypercobalt.apiserver.errors import JSONObject, bad_request
from hypercobalt.apiserver.kinds.names import label_key_errors, label_value_errors
from hypercobalt.apiserver.values import object_at, objects_at, text_at, texts_at

MAX_LENGTH = 16 * 1024  # characters of a selector
MAX_TERMS_PER_KEY = 16  # of a label; one term can list any number of values
MAX_FIELD_TERMS = 32

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a label selector."""

    key: str
    operator: str  # exists, absent, in, notin, gt, lt
    values: frozenset[str] = frozenset()

    @property
    def needs_key(self) -> bool:
        """Whether an object without the label is none of those selected."""
        return self.operator not in ("absent", "notin")

    def allows(self, value: str) -> bool:
        """Whether an object with this value of the label may be one of those selected."""
        match self.operator:
            case "exists":
                return True
            case "absent":
                return False
            case "in":
                return value in self.values
            case "notin":
                return value not in self.values
            case _:
                return self._compares(value)

    def _compares(self, value: str) -> bool:
        left, right = _integer(value), _integer(next(iter(self.values)))
        if left is None or right is None:
            return False
        return left > right if self.operator == "gt" else left < right


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All terms of a label selector."""

    terms: tuple[Requirement, ...] = ()
    _needed: frozenset[str] = field(default=frozenset(), compare=False)
    _by_key: Mapping[str, tuple[Requirement, ...]] = field(
        default_factory=dict[str, tuple[Requirement, ...]], compare=False
    )

    @classmethod
    def of(cls, terms: Iterable[Requirement]) -> LabelSelector:
        """Put terms together."""
        listed = tuple(terms)
        by_key: dict[str, tuple[Requirement, ...]] = {}
        for term in listed:
            by_key[term.key] = (*by_key.get(term.key, ()), term)
        return cls(listed, frozenset(term.key for term in listed if term.needs_key), by_key)

    def matches(self, labels: Labels) -> bool:
        return self._needed <= labels.keys() and all(
            term.allows(value)
            for key, value in labels.items()
            for term in self._by_key.get(key, ())
        )


def _integer(text: str) -> int | None:
    """Parse as Go's ParseInt for 64 bits does, else None: Python's int takes more."""
    number = int(text) if re.fullmatch(r"-?[0-9]{1,30}", text, re.ASCII) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


_TOKEN = re.compile(r"\s*(==|!=|=|[(),!<>]|[^\s=!(),<>]+)")
_END = ""
_COMPARISONS = {"=": "in", "==": "in", "!=": "notin", ">": "gt", "<": "lt"}


def parse_labels(text: str) -> LabelSelector:
    """Parse a label selector; empty text selects everything.

    Raises:
        StatusError: 400 naming what does not parse.
    """
    _check_length(text)
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
    for key, count in Counter(term.key for term in found).items():
        if count > MAX_TERMS_PER_KEY:
            text = f"more than {MAX_TERMS_PER_KEY} terms about {key}; list its values with in"
            raise _bad(text)
    return LabelSelector.of(found)


_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "absent"}


def selector_of(raw: JSONObject) -> LabelSelector:
    """The LabelSelector of an object: what its schema allows."""
    equal = object_at(raw, "matchLabels").items()
    return LabelSelector.of(
        (
            *(Requirement(key, "in", frozenset({str(value)})) for key, value in equal),
            *(
                Requirement(
                    text_at(term, "key"),
                    _OPERATORS.get(text_at(term, "operator"), "in"),
                    frozenset(texts_at(term, "values")),
                )
                for term in objects_at(raw, "matchExpressions")
            ),
        )
    )


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise bad_request(f"a selector of {len(text)} characters is too long: limit {MAX_LENGTH}")


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
        return _checked(key, operator, _values(tokens))
    if operator not in _COMPARISONS:
        raise _bad(f"found '{operator}', expected: in, notin, =, ==, !=, gt, lt")
    value = "" if tokens[0] == "," else _take(tokens)
    if value in _COMPARISONS:
        raise _bad(f"found '{value}', expected: identifier")
    return _checked(key, _COMPARISONS[operator], (value,))


def _values(tokens: deque[str]) -> tuple[str, ...]:
    if (token := _take(tokens)) != "(":
        raise _bad(f"found '{token}' expected: '('")
    listed = ","
    while (token := _take(tokens)) != ")":
        if not token or (token != "," and listed[-1] != ","):  # noqa: S105  # of a selector
            raise _bad(f"found '{token}', expected: ',' or ')'")
        listed += token
    return tuple(sorted(set(listed[1:].split(","))))


def _checked(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    for index, value in enumerate(values):
        if errors := label_value_errors(value):
            text = f'values[{index}][{key}]: Invalid value: "{value}"'
            raise _bad(f"{text}: {'; '.join(errors)}")
        if operator in ("gt", "lt") and _integer(value) is None:
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            raise _bad(f'values[0]: Invalid value: "{value}": {text}')
    return Requirement(key, operator, frozenset(values))


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
    _check_length(text)
    terms: list[FieldTerm] = []
    for term in re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL):
        match = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append(FieldTerm(match[1], _unescape(match[3]), match[2] != "!="))
        if len(terms) > MAX_FIELD_TERMS:
            raise bad_request(f"a field selector has more than {MAX_FIELD_TERMS} terms")
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
