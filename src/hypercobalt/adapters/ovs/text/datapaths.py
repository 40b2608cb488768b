"""dpctl/show and upcall/show.

Source: Open vSwitch's lib/dpctl.c and ofproto/ofproto-dpif-upcall.c.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.adapters.ovs.model import Datapath, Upcalls
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.text.blocks import blocks

_HEADER: Final = re.compile(r"^(\S+@\S+):$")
_LOOKUPS: Final = re.compile(r"^ +lookups: hit:(\d{1,20}) missed:(\d{1,20}) lost:(\d{1,20})")
_FLOWS: Final = re.compile(r"^ +flows: (\d{1,20})$")
_MASKS: Final = re.compile(r"^ +masks: hit:(\d{1,20}) total:(\d{1,20})")
_PORT: Final = re.compile(r"^ +port \d{1,20}: ")
_UPCALL_FLOWS: Final = re.compile(
    r"^ +flows +: \(current (\d{1,20})\) \(avg \d{1,20}\) \(max (\d{1,20})\) \(limit (\d{1,20})\)"
)
_DURATION: Final = re.compile(r"^ +dump duration : (\d{1,20})ms")


def parse_datapaths(text: str) -> tuple[Datapath, ...]:
    """Read the reply to `dpctl/show`.

    Raises:
        SwitchError: MALFORMED.
    """
    return tuple(_datapath(name, block) for name, block in blocks("dpctl/show", _HEADER, text))


def parse_upcalls(text: str) -> tuple[Upcalls, ...]:
    """Read the reply to `upcall/show`.

    Raises:
        SwitchError: MALFORMED.
    """
    return tuple(_upcalls(name, block) for name, block in blocks("upcall/show", _HEADER, text))


def _datapath(name: str, lines: list[str]) -> Datapath:
    hits, missed, lost = _numbers("dpctl/show", name, _LOOKUPS, lines)
    (flows,) = _numbers("dpctl/show", name, _FLOWS, lines)
    mask_hits, masks = _found(_MASKS, lines) or (None, None)
    ports = sum(1 for line in lines if _PORT.match(line))
    return Datapath(name, hits, missed, lost, flows, ports, mask_hits, masks)


def _upcalls(name: str, lines: list[str]) -> Upcalls:
    current, maximum, limit = _numbers("upcall/show", name, _UPCALL_FLOWS, lines)
    duration = _found(_DURATION, lines) or (0,)
    return Upcalls(name, current, maximum, limit, duration[0])


def _numbers(
    command: str, name: str, pattern: re.Pattern[str], lines: list[str]
) -> tuple[int, ...]:
    if (found := _found(pattern, lines)) is None:
        raise SwitchError(
            ProducerFault.MALFORMED, f"{command}: {name}: no line like {pattern.pattern!r}"
        )
    return found


def _found(pattern: re.Pattern[str], lines: list[str]) -> tuple[int, ...] | None:
    for line in lines:
        if found := pattern.match(line):
            return tuple(int(number) for number in found.groups())
    return None
