"""Ports whose device delivers packets that no flow of the switch counts. Pure.

Source: ovs-vswitchd.conf.db(5), `statistics` of Interface; OpenFlow 1.3, section 7.3.5.2.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.ovs_agent.facts import Sample, SuspectTrace

LEAST_PACKETS: Final = 10
"""Packets that a device must deliver between two samples for the switch's silence to count."""

SAMPLES: Final = 3
"""Samples of traffic that it takes to find silence."""


def silently_dead(samples: tuple[Sample, ...]) -> frozenset[str]:
    """UUIDs of ports whose device delivers packets that no flow of the switch has seen.

    It takes two intervals in a row: packets may be on their way into the counters.
    """
    if len(samples) < SAMPLES:
        return frozenset()
    first, second, third = samples[-SAMPLES:]
    return _silent_between(first, second) & _silent_between(second, third)


def _silent_between(before: Sample, after: Sample) -> frozenset[str]:
    if before.pid != after.pid or before.others != after.others:
        return frozenset()  # a flow for any port has taken packets, which may be the port's
    found: set[str] = set()
    for uuid, received in after.received.items():
        ofport = after.ofports.get(uuid)
        if ofport is None or before.ofports.get(uuid) != ofport:
            continue
        if ofport not in before.matched or ofport not in after.matched:
            continue
        delivered = received - before.received.get(uuid, received)
        if delivered >= LEAST_PACKETS and after.matched[ofport] == before.matched[ofport]:
            found.add(uuid)
    return frozenset(found)


def message_of(name: str, trace: SuspectTrace | None) -> str:
    """The message about such a port.

    Args:
        name: of the port.
        trace: what becomes of a broadcast from it; None if it was not traced.
    """
    shown = "" if trace is None else f"a broadcast from it, traced, is {trace.text}"
    if trace is not None and trace.ends_at_once:  # its own flow of table 0 leads on
        return (
            f"Port {name} delivers packets that no flow of its own counts: {shown}; see "
            "`cobalt trace`"
        )
    message = (
        f"Port {name} delivers packets that the switch does not get: its device was re-created; "
        "restart the instance's port, or ovs-vswitchd"
    )
    return f"{message}; {shown}, so flows do not stop them" if shown else message
