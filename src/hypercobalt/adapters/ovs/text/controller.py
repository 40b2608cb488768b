"""What ovn-controller prints of itself.

Source: OVN's controller/ovn-controller.c and controller/binding.c; Open vSwitch's lib/stopwatch.c.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.adapters.ovs.model import LocalBinding, Stopwatch
from hypercobalt.adapters.ovs.port import Fault, SwitchError

_CONNECTED: Final = {"connected": True, "not connected": False}
_PAUSED: Final = {"running": False, "paused": True}
_BINDING: Final = re.compile(
    r"^name: \[(?P<name>[^\]]*)\], OVS interface name : \[(?P<interface>[^\]]*)\], "
    r"num binding lports : \[(?P<ports>\d{1,20})\]$",
    re.MULTILINE,
)

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
        LocalBinding(one["name"], one["interface"].replace("NULL", ""), int(one["ports"]))
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


def _word(command: str, text: str, meanings: dict[str, bool]) -> bool:
    meaning = meanings.get(text.strip())
    if meaning is None:
        raise SwitchError(Fault.MALFORMED, f"{command}: {text.strip()[:80]!r}")
    return meaning
