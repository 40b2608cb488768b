"""Assertions that a host is dead, held against what the host sends after them.

An assertion, a person's annotation or another system's taint, names no time: one about a host that
lives would count as soon as that host falls silent. Whatever the host sends after the assertion was
first seen disproves it. What was sent before shows nothing: a host that has just died still seems
to live.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from hypercobalt.api.core import Node


@dataclass(frozen=True, slots=True)
class Heard:
    """What a host has sent last, as the API has it.

    Args:
        lease: when the node agent has renewed its Lease; "" for never, None: not known.
        heartbeat: when the kubelet has reported the Node's condition Ready; None for never.
    """

    lease: str | None
    heartbeat: datetime | None


@dataclass(frozen=True, slots=True)
class _Seen:
    text: str
    heard: Heard


class Assertions:
    """The assertions that this process has seen, and what their hosts had sent until then."""

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def disproof(self, name: str, text: str, heard: Heard) -> str:
        """What the host has sent since its assertion was first seen; "" for nothing.

        Args:
            name: of the Hypervisor.
            text: the assertion, with all that tells it from another one; "" for none.
            heard: see there.
        """
        if not text:
            self.forget(name)
            return ""
        seen = self._seen.get(name)
        if seen is None or seen.text != text:
            seen = _Seen(text, heard)
        elif seen.heard.lease is None:  # the watch of Leases had not begun
            seen = _Seen(text, Heard(heard.lease, seen.heard.heartbeat))
        self._seen[name] = seen
        return _since(seen.heard, heard)

    def forget(self, name: str) -> None:
        """Note that a Hypervisor is gone, or that nothing asserts its death."""
        self._seen.pop(name, None)


def heartbeat(node: Node) -> datetime | None:
    """When the kubelet has reported last; Unknown is written by others."""
    ready = next((one for one in node.status.conditions if one.type == "Ready"), None)
    return None if ready is None or ready.status == "Unknown" else ready.lastHeartbeatTime


def _since(before: Heard, now: Heard) -> str:
    if now.lease and now.lease != before.lease:
        return f"the node agent renewed its Lease at {now.lease}"
    if now.heartbeat is not None and now.heartbeat != before.heartbeat:
        return f"the kubelet reported at {now.heartbeat:%H:%M:%SZ}"
    return ""
