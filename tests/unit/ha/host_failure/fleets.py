"""Fleets as the gates count them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from hypercobalt.ha.host_failure.census import HostState
from hypercobalt.ha.host_failure.guard import GatedHost, ObserverState

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
S = timedelta(seconds=1)
OBSERVER = ObserverState(True, {"nodes": 5 * S, "hypervisors": 60 * S})
SUBJECT = GatedHost("h0", ("zone a", "rack 0"), instances=10, memory_mib=10_240, boot="b0")
FREE = 4096


def fleet(
    size: int,
    lost: Iterable[int] = (),
    *,
    apart: timedelta = timedelta(minutes=10),
    evacuated: Iterable[int] = (),
) -> list[HostState]:
    """Hosts in racks of ten, the lost ones one after the other."""
    done = set(evacuated)
    when = {number: NOW - apart * at for at, number in enumerate(lost)}
    return [
        HostState(
            f"h{number}",
            unwell=number in when,
            evacuated=number in done,
            stale=number in when,
            since=when.get(number),
            free_mib=FREE,
            domains=("zone a", f"rack {number // 10}"),
        )
        for number in range(size)
    ]
