"""Kubernetes' CEL functions: lists, patterns, quantities, URLs, addresses, networks.

The checker knows their types; the evaluator sees values without types, in which a quantity, URL,
address or network is a map of one entry. What a function raises is an evaluation error of the rule.

Source: k8s.io/apiserver pkg/cel/library.
"""

from __future__ import annotations

import ipaddress
import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import SplitResult, parse_qs, urlsplit

from cel_expr_python import cel

from hypercobalt.api.quantity import Quantity
from hypercobalt.apiserver.errors import JSON
from hypercobalt.apiserver.schema.patterns import compile_pattern

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
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


# -- URLs, addresses, networks -----------------------------------------------------------------

_BAD_URL = re.compile(r"[\x00-\x20\x7f]|%(?![0-9A-Fa-f]{2})|^[^/:]*$|^:")


def _split(text: str) -> SplitResult:
    parts = urlsplit(text, allow_fragments=False)
    if _BAD_URL.search(text) or not (parts.scheme or text.startswith("/")):
        raise ValueError(f"URL parse error: {text!r} is no absolute URL")
    _ = parts.port  # raises when it is none
    return parts


def _url(text: str) -> JSON:
    _split(text)
    return {"url": text}


def _of_url(get: Callable[[SplitResult], JSON]) -> Callable[[Opaque], JSON]:
    return lambda value: get(_split(value["url"]))


def _host(parts: SplitResult) -> str:
    return parts.netloc.rpartition("@")[2]


def _hostname(parts: SplitResult) -> str:
    host = re.sub(r":\d*$", "", _host(parts))
    return host[1:-1] if host.startswith("[") else host


def _port(parts: SplitResult) -> JSON:
    return "" if parts.port is None else str(parts.port)


def _query(parts: SplitResult) -> JSON:
    return cast("JSON", parse_qs(parts.query, keep_blank_values=True))


def _address(value: str | Opaque) -> Address:
    text = value if isinstance(value, str) else value["ip"]
    found = ipaddress.ip_address(text)
    if "%" in text or getattr(found, "ipv4_mapped", None) is not None:
        raise ValueError(f"IP address {text!r} parse error: zones and mapped addresses are refused")
    return found


def _network(value: str | Opaque) -> tuple[Address, Network]:
    text = value if isinstance(value, str) else value["cidr"]
    address, slash, length = text.partition("/")
    if not slash or not length.isascii() or not length.isdigit() or str(int(length)) != length:
        raise ValueError(f"network address parse error: {text!r} has no prefix length")
    return _address(address), ipaddress.ip_network(text, strict=False)


def _ip(text: str) -> JSON:
    return {"ip": str(_address(text))}


def _cidr(text: str) -> JSON:
    address, network = _network(text)
    return {"cidr": f"{address}/{network.prefixlen}"}


def _contains_cidr(value: Opaque, other: str | Opaque) -> JSON:
    outer, inner = _network(value)[1], _network(other)[1]
    same = outer.version == inner.version and outer.prefixlen <= inner.prefixlen
    return same and inner.network_address in outer


def _contains_ip(value: Opaque, other: str | Opaque) -> JSON:
    return _address(other) in _network(value)[1]


def _ip_of(value: Opaque) -> JSON:
    return {"ip": str(_network(value)[0])}


def _masked(value: Opaque) -> JSON:
    return {"cidr": str(_network(value)[1])}


def _prefix_length(value: Opaque) -> int:
    return _network(value)[1].prefixlen


def _of_ip(get: Callable[[Address], JSON]) -> Callable[[Opaque], JSON]:
    return lambda value: get(_address(value))


def _is_global_unicast(ip: Address) -> bool:
    broadcast = str(ip) == "255.255.255.255"
    return not (broadcast or ip.is_unspecified or ip.is_loopback or _is_local(ip))


def _is_local(ip: Address) -> bool:
    return ip.is_multicast or ip.is_link_local


def _is_link_local_multicast(ip: Address) -> bool:
    return ip in ipaddress.ip_network("224.0.0.0/24" if ip.version == 4 else "ff02::/16")  # noqa: PLR2004


# -- the table ---------------------------------------------------------------------------------


def _succeeds(call: Callable[..., JSON]) -> Callable[..., JSON]:
    def check(value: JSON) -> JSON:
        try:
            call(value)
        except ValueError:
            return False
        return True

    return check


def _type(name: str, result: str, call: Callable[[str], JSON]) -> tuple[Function, Function]:
    """What makes a value of an opaque type of text, and what says whether that would work."""
    return (
        Function(name, "string", result, call, member=False),
        Function(f"is{result}", "string", "bool", _succeeds(call), member=False),
    )


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
    *_type("quantity", "Quantity", _quantity),
    *_methods("Quantity int", "Quantity", add=_plus, sub=_minus),
    *_methods("Quantity Quantity", "Quantity", add=_plus, sub=_minus),
    *_methods("Quantity Quantity", "int", compareTo=_compare),
    *_methods("Quantity Quantity", "bool", isGreaterThan=_is_greater, isLessThan=_is_less),
    *_methods("Quantity", "int", asInteger=_as_integer),
    Function("sign", "Quantity", "int", _sign, member=False),
    *_methods("Quantity", "bool", isInteger=_succeeds(_as_integer)),
    *_methods("Quantity", "double", asApproximateFloat=_as_float),
    *_type("url", "URL", _url),
    *_methods(
        "URL",
        "string",
        getScheme=_of_url(lambda parts: parts.scheme),
        getHost=_of_url(_host),
        getHostname=_of_url(_hostname),
        getPort=_of_url(_port),
        getEscapedPath=_of_url(lambda parts: parts.path),
    ),
    *_methods("URL", "query", getQuery=_of_url(_query)),
    *_type("ip", "IP", _ip),
    *_methods("IP", "int", family=_of_ip(lambda ip: ip.version)),
    *_methods(
        "IP",
        "bool",
        isUnspecified=_of_ip(lambda ip: ip.is_unspecified),
        isLoopback=_of_ip(lambda ip: ip.is_loopback),
        isLinkLocalMulticast=_of_ip(_is_link_local_multicast),
        isLinkLocalUnicast=_of_ip(lambda ip: ip.is_link_local),
        isGlobalUnicast=_of_ip(_is_global_unicast),
    ),
    *_type("cidr", "CIDR", _cidr),
    *_methods("CIDR string", "bool", containsIP=_contains_ip, containsCIDR=_contains_cidr),
    *_methods("CIDR IP", "bool", containsIP=_contains_ip),
    *_methods("CIDR CIDR", "bool", containsCIDR=_contains_cidr),
    *_methods("CIDR", "IP", ip=_ip_of),
    *_methods("CIDR", "CIDR", masked=_masked),
    *_methods("CIDR", "int", prefixLength=_prefix_length),
)


def declarations(
    parameters: Mapping[str, Sequence[cel.Type]], results: Mapping[str, Sequence[cel.Type]]
) -> list[cel.FunctionDecl]:
    """Declare the functions; the arguments say what the names of types mean.

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
