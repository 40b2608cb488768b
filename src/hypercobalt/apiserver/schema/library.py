"""Kubernetes' CEL functions over lists, patterns and quantities.

The checker has their types; the evaluator sees values without types, in which a quantity is a map
of one entry. What a function raises is an evaluation error of the rule. `UNSERVED` are the
functions of the libraries that this server leaves out; an expression with one is refused by name.

The engine (cel-expr-python 0.1.3) never frees the arguments and results of functions in Python, so
no policy of ours calls one on what a client may send at will.

Source: k8s.io/apiserver pkg/cel/library.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from cel_expr_python import cel

from hypercobalt.api.quantity import Quantity
from hypercobalt.apiserver.errors import JSON
from hypercobalt.apiserver.schema.patterns import compile_pattern

Opaque: TypeAlias = dict[str, str]


class Function(NamedTuple):
    """A function, or a method when its first parameter is the receiver."""

    name: str
    parameters: str  # names of types
    result: str
    call: Callable[..., JSON]
    member: bool = True


# -- lists and patterns ------------------------------------------------------------------------


def _sum(items: list[float]) -> JSON:
    return sum(items)


def _least(items: list[float]) -> JSON:
    return min(items)


def _most(items: list[float]) -> JSON:
    return max(items)


def _is_sorted(items: list[float]) -> JSON:
    return items == sorted(items)


def _index(value: str | list[JSON], wanted: JSON, start: int = 0) -> JSON:
    if isinstance(value, str):
        return value.find(str(wanted), start)
    return value.index(wanted) if wanted in value else -1


def _last_index(value: str | list[JSON], wanted: JSON, end: int | None = None) -> JSON:
    if isinstance(value, str):
        text = str(wanted)
        return value.rfind(text, 0, None if end is None else end + len(text))
    return len(value) - 1 - value[::-1].index(wanted) if wanted in value else -1


def _substring(value: str, start: int, end: int | None = None) -> JSON:
    end = len(value) if end is None else end
    if not 0 <= start <= end <= len(value):
        raise ValueError(f"index out of range: {start if start < 0 or start > len(value) else end}")
    return value[start:end]


def _find(value: str, pattern: str) -> JSON:
    match = compile_pattern(pattern).search(value)
    return match.group() if match else ""


def _find_all(value: str, pattern: str, limit: int = -1) -> JSON:
    found: list[JSON] = [match.group() for match in compile_pattern(pattern).finditer(value)]
    return found if limit < 0 else found[:limit]


# -- quantities --------------------------------------------------------------------------------

_WHOLE = 10**9  # nanos
_ZERO: Opaque = {"quantity": "0"}


def _quantity(text: str) -> JSON:
    return {"quantity": str(Quantity(text).nanos)}


def _nanos(value: Opaque | int) -> int:
    return value * _WHOLE if isinstance(value, int) else int(value["quantity"])


def _plus(value: Opaque, other: Opaque | int, sign: int = 1) -> JSON:
    return {"quantity": str(_nanos(value) + sign * _nanos(other))}


def _minus(value: Opaque, other: Opaque | int) -> JSON:
    return _plus(value, other, -1)


def _compare(value: Opaque, other: Opaque) -> int:
    a, b = _nanos(value), _nanos(other)
    return (a > b) - (a < b)


def _is_greater(value: Opaque, other: Opaque) -> bool:
    return _compare(value, other) > 0


def _is_less(value: Opaque, other: Opaque) -> bool:
    return _compare(value, other) < 0


def _sign(value: Opaque) -> int:
    return _compare(value, _ZERO)


def _as_float(value: Opaque) -> float:
    return _nanos(value) / _WHOLE


def _as_integer(value: Opaque) -> JSON:
    whole, rest = divmod(_nanos(value), _WHOLE)
    if rest or not -(2**63) <= whole < 2**63:
        raise ValueError("cannot convert value to integer")
    return whole


# -- the table ---------------------------------------------------------------------------------


def _succeeds(call: Callable[..., JSON]) -> Callable[..., JSON]:
    def check(value: JSON) -> JSON:
        try:
            call(value)
        except ValueError:
            return False
        return True

    return check


def _methods(parameters: str, result: str, **calls: Callable[..., JSON]) -> list[Function]:
    return [Function(name, parameters, result, call) for name, call in calls.items()]


# Strings have methods of these names already, and the engine takes no second declaration. (Its
# substring refuses to end where the text does.)
RENAMED = {"indexOf": "indexOF", "lastIndexOf": "lastIndexOF", "substring": "subString"}
_SEARCHES: dict[str, Callable[..., JSON]] = {"indexOF": _index, "lastIndexOF": _last_index}

FUNCTIONS: tuple[Function, ...] = (
    *_methods("list", "dyn", sum=_sum, min=_least, max=_most),
    *_methods("list", "bool", isSorted=_is_sorted),
    *_methods("list dyn", "int", **_SEARCHES),
    *_methods("string string", "int", **_SEARCHES),
    *_methods("string string int", "int", **_SEARCHES),
    *_methods("string int", "string", substring=_substring),
    *_methods("string int int", "string", substring=_substring),
    *_methods("string string", "string", find=_find),
    *_methods("string string", "strings", findAll=_find_all),
    *_methods("string string int", "strings", findAll=_find_all),
    Function("quantity", "string", "Quantity", _quantity, member=False),
    Function("isQuantity", "string", "bool", _succeeds(_quantity), member=False),
    *_methods("Quantity int", "Quantity", add=_plus, sub=_minus),
    *_methods("Quantity Quantity", "Quantity", add=_plus, sub=_minus),
    *_methods("Quantity Quantity", "int", compareTo=_compare),
    *_methods("Quantity Quantity", "bool", isGreaterThan=_is_greater, isLessThan=_is_less),
    *_methods("Quantity", "int", asInteger=_as_integer),
    Function("sign", "Quantity", "int", _sign, member=False),
    *_methods("Quantity", "bool", isInteger=_succeeds(_as_integer)),
    *_methods("Quantity", "double", asApproximateFloat=_as_float),
)

UNSERVED = frozenset(
    {
        *("cidr", "format", "ip", "isCIDR", "isIP"),
        *("isSemver", "isURL", "semver", "sets", "url"),
    }
)
"""Functions, and first words of functions, of kube-apiserver's other libraries."""


def declarations(
    parameters: Mapping[str, Sequence[cel.Type]], results: Mapping[str, Sequence[cel.Type]]
) -> list[cel.FunctionDecl]:
    """Declare the functions; the arguments map names of types to types.

    Args:
        parameters: alternatives; each combination is an overload.
        results: of which the first counts.
    """
    overloads: dict[str, list[cel.Overload]] = {}
    for function in FUNCTIONS:
        name = RENAMED.get(function.name, function.name)
        named = overloads.setdefault(name, [])
        kinds = (parameters[kind] for kind in function.parameters.split())
        for combination in itertools.product(*kinds):
            overload = cel.Overload(
                id=f"kubernetes_{name}_{len(named)}",
                return_type=results[function.result][0],
                parameters=combination,
                is_member=function.member,
                impl=function.call,
            )
            named.append(overload)
    return [cel.FunctionDecl(name, listed) for name, listed in overloads.items()]
