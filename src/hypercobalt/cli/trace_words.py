"""Reads the words of `cobalt trace` as the agent takes them. Pure.

A flow as `ovs-appctl ofproto/trace` takes it can be pasted: commas separate, `in_port` is where it
comes from, a protocol stands alone, and ports name theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hypercobalt.adapters.ovs.packet import PROTOCOLS, WITH_PORTS, canonical
from hypercobalt.errors import InvalidRequestError

_KEYWORDS: Final = {
    **{name: name for name in PROTOCOLS},
    **{f"{name}6": name for name in ("icmp", *WITH_PORTS)},
    "ipv6": "ip",
}
"""Protocols by the words that Open vSwitch has for them."""


def parameters(words: Iterable[str], flags: Mapping[str, str]) -> dict[str, str]:
    """Parameters of the request.

    Args:
        words: fields, as `ip_dst=10.0.0.2` or `tcp`.
        flags: values by name, which words are no longer given for.

    Raises:
        InvalidRequestError: a word is unknown, or a field is given twice.
    """
    found: dict[str, str] = {}
    for name, value in flags.items():
        _put(found, name, value)
    for word in (part.strip() for words_ in words for part in words_.split(",")):
        if not word:
            continue
        name, is_field, value = word.partition("=")
        if is_field:
            _put(found, name.strip(), value.strip())
        elif word in _KEYWORDS:
            _put(found, "proto", _KEYWORDS[word])
        else:
            raise InvalidRequestError(
                f"{word!r} is neither FIELD=VALUE nor a protocol ({', '.join(PROTOCOLS)})"
            )
    if not found.get("from"):
        raise InvalidRequestError("--from is missing: the port that the packet comes in by")
    return found


def _put(found: dict[str, str], name: str, value: str) -> None:
    proto, _, end = name.partition("_")
    if name == "in_port":
        name = "from"
    elif proto in WITH_PORTS and end in {"src", "dst"}:
        if found.setdefault("proto", proto) != proto:
            raise InvalidRequestError(f"{name} is not valid with {found['proto']}")
        name = f"{end}_port"
    else:
        name = canonical(name)
    same = found.setdefault(name, value)
    if same != value:
        raise InvalidRequestError(f"{name} is given twice: {same} and {value}")
