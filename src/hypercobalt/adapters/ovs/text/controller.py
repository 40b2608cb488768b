"""What ovn-controller prints of itself.

Source: OVN's controller/ovn-controller.c and controller/binding.c; Open vSwitch's lib/stopwatch.c.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.adapters.ovs.internals import EngineNode
from hypercobalt.adapters.ovs.model import LocalBinding, Stopwatch
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

_CONNECTED: Final = {"connected": True, "not connected": False}
_PAUSED: Final = {"running": False, "paused": True}
_BINDING: Final = re.compile(
    r"^name: \[(?P<name>[^\]]*)\], OVS interface name : \[(?P<interface>[^\]]*)\], "
    r"num binding lports : \[(?P<ports>\d{1,20})\]$"
    r"(?P<localport>\nlocalport lport : )?",
    re.MULTILINE,
)

_ZONE: Final = re.compile(r"^(?P<name>\S.*) (?P<zone>\d{1,10})$", re.MULTILINE)
_NODE: Final = re.compile(
    r"^Node: (?P<name>\S+)\n"
    r"- recompute: +(?P<recompute>\d{1,20})\n"
    r"- compute: +(?P<compute>\d{1,20})\n"
    r"- (?:abort|cancel): +(?P<abort>\d{1,20})$",
    re.MULTILINE,
)
_OF_CACHE: Final = re.compile(r"^(?P<name>[a-zM][^:\n]*?) *: (?P<value>\d{1,20})$", re.MULTILINE)
_STOPWATCH: Final = re.compile(
    r"^Statistics for '(?P<name>[^']*)'\n"
    r"  Total samples: (?P<samples>\d{1,20})\n"
    r"  Maximum: (?P<maximum>\d{1,20}) msec\n"
    r"  Minimum: \d{1,20} msec\n"
    r"  95th percentile: (?P<percentile>\d{1,20}\.\d{1,20}) msec\n"
    r"  Short term average: \d{1,20}\.\d{1,20} msec\n"
    r"  Long term average: (?P<average>\d{1,20}\.\d{1,20}) msec$",
    re.MULTILINE,
)


def parse_connected(text: str) -> bool:
    """Read the reply to `connection-status`.

    Raises:
        SwitchError: MALFORMED.
    """
    return _word("connection-status", text, _CONNECTED)


def parse_paused(text: str) -> bool:
    """Read the reply to `debug/status`.

    Raises:
        SwitchError: MALFORMED.
    """
    return _word("debug/status", text, _PAUSED)


def parse_local_bindings(text: str) -> tuple[LocalBinding, ...]:
    """Read the reply to `debug/dump-local-bindings`, by interface; `""` for a binding without."""
    found = (
        LocalBinding(
            one["name"],
            one["interface"].replace("NULL", ""),
            int(one["ports"]),
            is_localport=one["localport"] is not None,
        )
        for one in _BINDING.finditer(text)
    )
    return tuple(sorted(found, key=lambda one: (one.interface, one.iface_id)))


def parse_stopwatches(text: str) -> tuple[Stopwatch, ...]:
    """Read the reply to `stopwatch/show`; one whose lines are others is left out."""
    return tuple(
        Stopwatch(
            one["name"],
            int(one["samples"]),
            int(one["maximum"]),
            float(one["percentile"]),
            float(one["average"]),
        )
        for one in _STOPWATCH.finditer(text)
    )


def parse_zones(text: str) -> dict[str, int]:
    """Zones of connection tracking by logical port or router, of `ct-zone-list`."""
    return {one["name"]: int(one["zone"]) for one in _ZONE.finditer(text)}


def parse_engine(text: str) -> tuple[EngineNode, ...]:
    """Read the reply to `inc-engine/show-stats`; a part whose lines are others is left out."""
    counts = ("recompute", "compute", "abort")
    return tuple(
        EngineNode(one["name"], *(int(one[count]) for count in counts))
        for one in _NODE.finditer(text)
    )


def parse_lflow_cache(text: str) -> dict[str, int]:
    """Numbers by name of the reply to `lflow-cache/show-stats`; empty while it is disabled."""
    return {one["name"]: int(one["value"]) for one in _OF_CACHE.finditer(text)}


def _word(command: str, text: str, meanings: dict[str, bool]) -> bool:
    meaning = meanings.get(text.strip())
    if meaning is None:
        raise SwitchError(ProducerFault.MALFORMED, f"{command}: {text.strip()[:80]!r}")
    return meaning
