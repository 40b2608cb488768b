"""Finds the host of a fence device, by the UUID of the system that it switches. Pure.

The administrator's document binds a device to a host; the device and the host confirm it. What the
host reports is hostile: with another UUID than its device's it is not fenced, which harms itself
alone. A UUID that was proven for one host stays that host's: what another one reports later takes
nothing from it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from hypercobalt.adapters.fencing.devices import Identity
from hypercobalt.api.core import Node
from hypercobalt.api.fencing import FenceDeviceIdentity
from hypercobalt.api.hypervisor import Hypervisor


@dataclass(frozen=True, slots=True)
class Proven:
    """The device switches the host."""

    uuid: str


@dataclass(frozen=True, slots=True)
class OtherHost:
    """The device switches another system, or whether it does cannot be decided."""

    uuid: str
    why: str


@dataclass(frozen=True, slots=True)
class NotProven:
    """The device does not report a UUID, or the host does not."""

    why: str


Verdict: TypeAlias = Proven | OtherHost | NotProven

HolderOf = Callable[[str], str]
"""Returns the other host for which a UUID was proven; "" for none."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """Facts about a device of a host.

    Args:
        device: for people.
        identity: proof that the site demands of it.
        claims: the UUIDs that the host reports, as it writes them first; see `claims`.
        record: the operator's record of it; None for none.
        holder: see `HolderOf`.
    """

    device: str
    identity: Identity
    claims: tuple[str, ...]
    record: FenceDeviceIdentity | None
    holder: HolderOf


def judge(facts: DeviceFacts, reported: frozenset[str], unread: str) -> Verdict:
    """Decide which host a device belongs to, while its host is well or when it has to be fenced.

    Args:
        facts: see there.
        reported: the UUIDs that the device may mean; none where it has none.
        unread: why it could not be read; "" where it was.
    """
    device = facts.device
    if facts.identity is Identity.IGNORED:
        return NotProven(f"{device}: the document has identity: ignored")
    if unread:
        return NotProven(unread)
    if not reported:
        return NotProven(f"{device} reports no UUID of the system that it switches")
    for found in sorted(reported):
        if other := facts.holder(found):
            return OtherHost(
                found, f"{device} reports the UUID {found}, which the device of host {other} has"
            )
    if (before := _proven_by(facts.record)) in reported:
        return Proven(before)
    if not facts.claims:
        return NotProven(f"{device} reports a UUID, and the host has not reported its own yet")
    if same := next((one for one in facts.claims if one in reported), ""):
        return Proven(same)
    return OtherHost(
        min(reported),
        f"{device} reports the UUID {min(reported)}, and the host {facts.claims[0]}: "
        "it is another host's device",
    )


def refusal(facts: DeviceFacts, reported: frozenset[str], unread: str) -> str:
    """Return why a device must not be given an order now; "" where it may.

    A device that has proven itself before has to do so again, by the same UUID: reports of a host
    that is about to be fenced change nothing.
    """
    record = facts.record
    if facts.identity is not Identity.IGNORED and record is not None and not record.proven:
        return record.problem or f"{facts.device} is another host's device"
    verdict = judge(facts, reported, unread)
    before = _proven_by(record)
    match verdict:
        case OtherHost(_, why):
            return why
        case Proven(found) if before not in {"", found}:
            return f"{facts.device} reports the UUID {found}, and {before} before"
        case NotProven(why) if facts.identity is Identity.REQUIRED:
            return f"{why}; identity: required"
        case NotProven(why) if facts.identity is Identity.OPTIONAL and before:
            return f"{why}; it reported {before} before"
        case _:
            return ""


def recorded(device: str, verdict: Verdict) -> FenceDeviceIdentity | None:
    """Return the record of a verdict; none for a verdict that decides nothing."""
    match verdict:
        case Proven(found):
            return FenceDeviceIdentity(device=device, systemUUID=found, proven=True)
        case OtherHost(found, why):
            return FenceDeviceIdentity(device=device, systemUUID=found, proven=False, problem=why)
        case NotProven():
            return None


def claims(hypervisor: Hypervisor | None, node: Node) -> tuple[str, ...]:
    """Return the UUIDs that a host reports: by its agent, and by its kubelet.

    Both byte orders of each count: firmware older than SMBIOS 2.6 is read in either.
    """
    info = node.status.nodeInfo
    given = (
        hypervisor.status.hostUUID if hypervisor is not None else None,
        info.systemUUID if info is not None else None,
    )
    found = [one for text in given if (one := _uuid(text or "")) is not None]
    swapped = (uuid.UUID(bytes=one.bytes_le) for one in found)
    return tuple(dict.fromkeys(map(str, (*found, *swapped))))


def record_of(hypervisor: Hypervisor | None, device: str) -> FenceDeviceIdentity | None:
    """Return the operator's record of one device of a host."""
    found = hypervisor.status.fenceDevices if hypervisor is not None else ()
    return next((one for one in found if one.device == device), None)


def holder_among(hypervisors: Iterable[Hypervisor], name: str, found: str) -> str:
    """Return the host, other than `name`, for which a UUID was proven; "" for none."""
    return next(
        (
            one.metadata.name
            for one in hypervisors
            if one.metadata.name != name
            and any(it.proven and it.systemUUID == found for it in one.status.fenceDevices)
        ),
        "",
    )


def _proven_by(record: FenceDeviceIdentity | None) -> str:
    """Return the UUID by which a device was proven to be the host's; "" for none."""
    return record.systemUUID if record is not None and record.proven else ""


def _uuid(text: str) -> uuid.UUID | None:
    try:
        found = uuid.UUID(text)
    except ValueError:
        return None
    return found if found.int else None
