"""Assertions that a host is dead, compared with the reports of that host. Pure.

An assertion is a person's annotation or another system's taint. It has no time: an assertion about
a host that lives would count as soon as that host becomes silent. So the operator records an
assertion when it first observes it, with the last reports of the host. The assertion counts from
the next pass on; any later report of the host disproves it. Earlier reports prove nothing, as a
host that has just died still appears to live.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from msgspec.structs import replace

from hypercobalt.api.fencing import ASSERTED_DEAD, Assertion


@dataclass(frozen=True, slots=True)
class LastReports:
    """The last reports of a host, as the API server has them.

    Args:
        lease: renewal time in the node agent's Lease; "" for never, None: not known.
        node: when the kubelet last reported the Node's condition Ready; None for never.
    """

    lease: str | None
    node: datetime | None


def recorded(
    stored: Assertion | None, by: str, reports: LastReports, now: datetime
) -> Assertion | None:
    """Return the record of the present assertion; None without an assertion.

    Args:
        stored: the record until now.
        by: the annotation or the taint, with its value; "" for none.
        reports: of the host.
        now: the clock of the record.
    """
    if not by:
        return None
    if stored is None or stored.by != by:
        return Assertion(
            by=by,
            seenAt=now.replace(microsecond=0),
            leaseRenewedAt=reports.lease,
            nodeReportedAt=reports.node,
        )
    if stored.leaseRenewedAt is None:  # an earlier pass ran before the operator listed the Leases
        stored = replace(stored, leaseRenewedAt=reports.lease)
    return replace(stored, disproved=True) if _has_reported(stored, reports) else stored


def counts(stored: Assertion | None, present: Assertion | None) -> bool:
    """Whether the present assertion was recorded by an earlier pass and has not been disproved."""
    if stored is None or present is None or stored.by != present.by:
        return False
    return not present.disproved


def is_removable(assertion: Assertion) -> bool:
    """Whether the operator may remove a disproved assertion: a taint belongs to another system."""
    return assertion.by.startswith(f"{ASSERTED_DEAD}=")


def _has_reported(stored: Assertion, reports: LastReports) -> bool:
    renewed = bool(reports.lease) and reports.lease != stored.leaseRenewedAt
    return renewed or (reports.node is not None and reports.node != stored.nodeReportedAt)
