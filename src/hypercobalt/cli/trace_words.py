"""Reads the words of `cobalt trace` as the agent takes them. Pure.

A flow as `ovs-appctl ofproto/trace` takes it can be pasted: commas separate, `in_port` is where it
comes from, a protocol stands alone, and ports name theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from hypercobalt.adapters.ovs.packet import FIELDS, PROTOCOLS, WITH_PORTS, canonical
from hypercobalt.errors import InvalidRequestError

_KEYWORDS: Final = {
    **{name: name for name in PROTOCOLS},
    **{f"{name}6": name for name in ("icmp", *WITH_PORTS)},
    "ipv6": "ip",
}
"""Protocols by the words that Open vSwitch has for them."""

_OF_TUNNEL: Final = ("from", "tun_id", "tun_metadata0")
_LONGEST: Final = 255  # characters of a value; the name of a chassis is the longest
_SHOWN: Final = 80  # characters of a name in a message


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


def onward_parameters(host: str, given: Mapping[str, str]) -> dict[str, str]:
    """Parameters of a packet that a host's agent has sent on; the next agent gets no others.

    The request for the next host has the right of the person, not that of the host that has
    answered: it is only ever about a packet that comes out of a tunnel.

    Args:
        host: whose agent has answered.
        given: its answer.

    Raises:
        InvalidRequestError: they are not what an agent makes of such a packet.
    """
    about = f"{host} sends the packet on"
    for name, value in given.items():
        if name != "from" and name not in FIELDS:
            shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
            why = f"with {shown!r}, which is no field of one"
        elif len(value) > _LONGEST:
            why = f"with {name} of {len(value)} characters, of which {_LONGEST} are valid"
        else:
            continue
        raise InvalidRequestError(f"{about} {why}; check its OVS agent")
    if missing := [name for name in _OF_TUNNEL if not given.get(name)]:
        raise InvalidRequestError(f"{about} without {missing[0]}; check its OVS agent")
    return dict(given)


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
