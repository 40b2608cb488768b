"""Which of several hosts an address or a host UUID belongs to: the first one keeps it. Pure.

A kubelet writes its Node's addresses and an agent its host's UUID, so a captured host may list
those of another. What a host held first is recorded in annotations of its Hypervisor, which a write
of the status cannot change; a later claim takes nothing from it. The record passes on once its
holder lists something else instead; one that lists nothing keeps it: an absence proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from hypercobalt.api.addresses import parse_host_address
from hypercobalt.api.hypervisor import Hypervisor

ADDRESS: Final = "kvm.cloud.sap/held-address"
"""Annotation of a Hypervisor: the address that is its host's; "" where another host holds it."""

HOST_UUID: Final = "kvm.cloud.sap/held-uuid"
"""Annotation of a Hypervisor: the host UUID that is its host's; "" where another host holds it."""

_PLACEHOLDERS: Final = frozenset(
    {"00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"}
)


@dataclass(frozen=True, slots=True)
class Claim:
    """What one host holds and wants; values in their one form.

    Args:
        host: name of the Hypervisor.
        held: what is recorded for it; "" for nothing.
        listed: what the host lists now, the preferred one first.
    """

    host: str
    held: str
    listed: tuple[str, ...]

    def holds(self, value: str) -> bool:
        """Whether the value is the host's."""
        return bool(value) and value == self.held and (value in self.listed or not self.listed)


@dataclass(frozen=True, slots=True)
class Settled:
    """What a host has.

    Args:
        held: to be recorded; "" for nothing.
        refused: what it lists and another host holds; "" for nothing.
        holder: that host.
    """

    held: str
    refused: str = ""
    holder: str = ""


def settle(own: Claim, others: Iterable[Claim]) -> Settled:
    """Decide what a host holds from now on.

    Args:
        own: of the host.
        others: that hold or list one of the same values.
    """
    rivals = [one for one in others if one.host != own.host]
    if own.held in own.listed:
        return Settled(own.held)
    refused, holder = "", ""
    for value in own.listed:
        if has := next((one.host for one in rivals if one.holds(value)), ""):
            refused, holder = refused or value, holder or has
        elif not any(not one.held and value in one.listed for one in rivals):
            return Settled(value)
    kept = "" if any(one.holds(own.held) for one in rivals) else own.held
    return Settled(kept, refused, holder)


def holder_of(value: str, claims: Iterable[Claim]) -> str:
    """The one host that holds a value; "" where none does, or two do."""
    found = {one.host for one in claims if one.holds(value)}
    return found.pop() if len(found) == 1 else ""


def way_out(holder: str) -> str:
    """What a person does where the holder is not the rightful one."""
    return (
        f"correct this one, or, if {holder} is not that host any more, "
        f"`kubectl delete node {holder}`"
    )


def held_address(hypervisor: Hypervisor) -> str:
    """The address that is recorded for a host; without a record the last one that it had."""
    recorded = hypervisor.metadata.annotations.get(ADDRESS)
    return address_form(hypervisor.status.internalIp or "") if recorded is None else recorded


def held_uuid(hypervisor: Hypervisor) -> str:
    """The host UUID that is recorded for a host."""
    return hypervisor.metadata.annotations.get(HOST_UUID, "")


def reported_uuid(hypervisor: Hypervisor) -> str:
    """The UUID that the node agent reports, in lower case; "" for none, or for a placeholder."""
    found = (hypervisor.status.hostUUID or "").lower()
    return "" if found in _PLACEHOLDERS else found


def uuid_claim(hypervisor: Hypervisor) -> Claim:
    """What a host holds and wants of host UUIDs."""
    reported = reported_uuid(hypervisor)
    listed = (reported,) if _is_uuid(reported) else ()
    return Claim(hypervisor.metadata.name, held_uuid(hypervisor), listed)


def address_form(text: str) -> str:
    """The one form of an address; "" for what is none that a host can have."""
    try:
        return str(parse_host_address(text))
    except ValueError:
        return ""


def _is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False
