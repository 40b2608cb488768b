"""Defaults of the guest's memory: its size, and how much there may be by hotplug."""

from __future__ import annotations

from typing import Final

from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.defaults.members import member
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import Json, JsonObject

_LEAST: Final = 1024**3
"""Bytes of the smallest guest that gets hotplug of memory."""
_STEP: Final = 2 * 1024**2
_MOST: Final = 2**63 - 1
"""Bytes that an amount can hold."""


def apply_guest(spec: JsonObject) -> None:
    """Take the guest's memory from what is requested, else from the limit, else one huge page."""
    memory = member(member(spec, "domain"), "memory")
    if "guest" not in memory:
        found = _size(At(spec)["domain"])
        if found is not None:
            memory["guest"] = found


def _size(domain: At) -> Json:
    for path in ("resources.requests.memory", "resources.limits.memory"):
        if domain[path].amount:
            return domain[path].value
    page = domain["memory.hugepages.pageSize"]
    return page.value if page.quantity else None


def _can_grow(spec: At) -> bool:
    """Whether neither its architecture, nor pages and CPUs of its own, keep a guest's memory."""
    domain = spec["domain"]
    page = domain["memory.hugepages.pageSize"].amount.value
    fits = not page or domain["memory.guest"].amount.value % page == 0
    fixed = (domain["cpu.numa.guestMappingPassthrough"], domain["cpu.realtime"])
    return (
        spec["architecture"].text == "amd64"
        and fits
        and not any(fixed)
        and not domain["launchSecurity"]
    )


def apply_maximum(spec: JsonObject, cluster: ClusterConfig) -> None:
    """Let a guest of a GiB and more grow, unless its memory cannot."""
    memory = member(member(spec, "domain"), "memory")
    guest = At(memory)["guest"].amount
    if "maxGuest" in memory or not _can_grow(At(spec)):
        return
    most = guest.value * cluster.max_hotplug_ratio
    if guest.value >= _LEAST and guest.value % _STEP == 0 and most <= _MOST:
        memory["maxGuest"] = str(Quantity.of(most, guest.format))
