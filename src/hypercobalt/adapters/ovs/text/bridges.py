"""fdb/show, fdb/stats-show and dpif/show.

Source: Open vSwitch's ofproto/ofproto-dpif.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.adapters.ovs.internals import BridgeOfDatapath, MacEntry, PortOfDatapath
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

_LOCAL: Final = 65534
_MAC: Final = re.compile(
    r"^ *(?P<port>\d{1,10}|LOCAL) +(?P<vlan>\d{1,4})  (?P<mac>[0-9a-f]{2}(?::[0-9a-f]{2}){5})"
    r" +(?P<age>\d{1,10}|static)$",
    re.MULTILINE,
)
_COUNTER: Final = re.compile(r"^  (?P<name>[A-Z][^:\n]*?) *: (?P<value>\d{1,20})(?:/\d{1,20})?$")
_DATAPATH: Final = re.compile(r"^(\S+@\S+): hit:(\d{1,20}) missed:(\d{1,20})$")
_BRIDGE: Final = re.compile(r"^  (\S.*):$")
_PORT: Final = re.compile(
    r"^    (?P<name>\S+) (?P<ofport>\d{1,10})/(?P<number>\d{1,10}|none):"
    r"(?: \((?P<type>[^:)]+)(?:: (?P<options>.*))?\))?$"
)


def parse_macs(text: str) -> tuple[MacEntry, ...]:
    """Read the reply to `fdb/show BRIDGE`."""
    return tuple(
        MacEntry(
            _LOCAL if one["port"] == "LOCAL" else int(one["port"]),
            int(one["vlan"]),
            one["mac"],
            None if one["age"] == "static" else int(one["age"]),
        )
        for one in _MAC.finditer(text)
    )


def parse_mac_counters(text: str) -> dict[str, int]:
    """Numbers by name of the reply to `fdb/stats-show BRIDGE`; of `2/8192` the first."""
    found = (_COUNTER.match(line) for line in text.splitlines())
    return {one["name"]: int(one["value"]) for one in found if one}


def parse_dpif(text: str) -> tuple[BridgeOfDatapath, ...]:
    """Read the reply to `dpif/show`.

    Raises:
        SwitchError: MALFORMED, for text before the first datapath.
    """
    return tuple(_bridges(text))


def _bridges(text: str) -> Iterator[BridgeOfDatapath]:
    datapath: re.Match[str] | None = None
    name, ports = "", list[PortOfDatapath]()
    for line in (*text.splitlines(), ""):
        if port := _PORT.match(line):
            ports.append(_port(port))
            continue
        header, bridge = _DATAPATH.match(line), _BRIDGE.match(line)
        if datapath is None and header is None and line.strip():
            raise SwitchError(
                ProducerFault.MALFORMED, f"dpif/show: {line[:80]!r} stands in no datapath"
            )
        if datapath is not None and name and (header or bridge or not line):
            hits, missed = int(datapath[2]), int(datapath[3])
            yield BridgeOfDatapath(name, datapath[1], hits, missed, tuple(ports))
            name, ports = "", []
        datapath, name = header or datapath, bridge[1] if bridge else name


def _port(found: re.Match[str]) -> PortOfDatapath:
    number = None if found["number"] == "none" else int(found["number"])
    kind, options = found["type"] or "", found["options"] or ""
    return PortOfDatapath(found["name"], int(found["ofport"]), number, kind, options)
