"""Assertions that a host is dead, held against what the host sends after them. Pure.

An assertion, a person's annotation or another system's taint, names no time: one about a host that
lives would count as soon as that host falls silent. So it is recorded when it is first seen, with
what the host had sent until then, and counts from the next pass on. Whatever the host sends later
disproves it. What was sent before shows nothing: a host that has just died still seems to live.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from hypercobalt.api.fencing import CLAIM, Assertion


@dataclass(frozen=True, slots=True)
class Heard:
    """What a host has sent last, as the API has it.

    Args:
        lease: when the node agent has renewed its Lease; "" for never, None: not known.
        reported: when the kubelet has reported the Node's condition Ready; None for never.
    """

    lease: str | None
    reported: datetime | None


def noted(stored: Assertion | None, by: str, heard: Heard, now: datetime) -> Assertion | None:
    """The record of the present assertion; None without one.

    Args:
        stored: the record.
        by: the assertion, with all that tells it from another one; "" for none.
        heard: see there.
        now: the clock of the record.
    """
    if not by:
        return None
    if stored is None or stored.by != by:
        return Assertion(
            by=by,
            seenAt=now.replace(microsecond=0),
            leaseRenewedAt=heard.lease,
            nodeReportedAt=heard.reported,
        )
    if stored.leaseRenewedAt is None:  # the watch of Leases had not begun
        stored = replace(stored, leaseRenewedAt=heard.lease)
    return replace(stored, disproved=True) if _lives(stored, heard) else stored


def counts(stored: Assertion | None, noted_: Assertion | None) -> bool:
    """Whether the present assertion is recorded, and nothing has disproved it."""
    if stored is None or noted_ is None or stored.by != noted_.by:
        return False
    return not noted_.disproved


def is_removable(found: Assertion) -> bool:
    """Whether the operator takes it away once it is disproved: a taint is another system's."""
    return found.by.startswith(f"{CLAIM}=")


def _lives(stored: Assertion, heard: Heard) -> bool:
    renewed = bool(heard.lease) and heard.lease != stored.leaseRenewedAt
    return renewed or (heard.reported is not None and heard.reported != stored.nodeReportedAt)
