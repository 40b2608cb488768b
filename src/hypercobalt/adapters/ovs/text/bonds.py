"""bond/show.

Source: Open vSwitch's ofproto/bond.c. Before 2.15 a member is called a slave.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.adapters.ovs.model import BondMember, BondState, LacpStatus
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError
from hypercobalt.adapters.ovs.text.blocks import blocks

_HEADER: Final = re.compile(r"^---- (.+) ----$")
_MEMBER: Final = re.compile(r"^(?:member|slave) (.+): (enabled|disabled)$")
_ACTIVE: Final = re.compile(r"^\s+active (?:member|slave)$")


def parse_bonds(text: str) -> tuple[BondState, ...]:
    """Read the reply to `bond/show`, without an argument.

    Raises:
        SwitchError: MALFORMED.
    """
    return tuple(_bond(name, lines) for name, lines in blocks("bond/show", _HEADER, text))


def _bond(name: str, lines: list[str]) -> BondState:
    values = dict(line.split(": ", 1) for line in lines if ": " in line)
    mode, lacp = values.get("bond_mode"), values.get("lacp_status", "off")
    if mode is None or lacp not in set(LacpStatus):
        raise SwitchError(
            ProducerFault.MALFORMED, f"bond/show: {name}: bond_mode {mode!r}, lacp_status {lacp!r}"
        )
    members: list[BondMember] = []
    for line in lines:
        if found := _MEMBER.match(line):
            members.append(BondMember(found[1], enabled=found[2] == "enabled"))
        elif members and _ACTIVE.match(line):
            members[-1] = BondMember(members[-1].name, members[-1].enabled, active=True)
    return BondState(
        name,
        mode,
        LacpStatus(lacp),
        fallback=values.get("lacp_fallback_ab") == "true",
        members=tuple(sorted(members, key=lambda one: one.name)),
    )
