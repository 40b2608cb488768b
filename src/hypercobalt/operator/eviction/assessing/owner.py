"""Whether what happened to an instance was its owner's wish. Pure.

Nova's own power sync, which stops an instance whose guest has died, has no user and is no wish.

Source: Nova, nova/compute/instance_actions.py; docs/ha.md, planned and unplanned.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Final

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import LABEL
from hypercobalt.compute.model import Action

_ENDS: Final = frozenset(
    {
        "delete",
        "evacuate",
        "live-migration",
        "migrate",
        "pause",
        "reboot",
        "rebuild",
        "rescue",
        "resize",
        "revertResize",
        "shelve",
        "shelveOffload",
        "stop",
        "suspend",
        "trigger_crash_dump",
        "unrescue",
    }
)
"""What ends a guest, or may: it is given a fault to take a crash dump."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STARTS: Final = frozenset({"start", "reboot", "resume", "unpause"})


def incident_of(eviction: Eviction, hypervisor: Hypervisor | None) -> datetime:
    """When what led to an Eviction was first seen, or when the Eviction was made."""
    wanted = eviction.metadata.labels.get(LABEL)
    incidents = hypervisor.status.incidents if hypervisor is not None else ()
    seen = next((one.firstSeen for one in incidents if one.id == wanted), None)
    return seen or eviction.metadata.creationTimestamp or _EPOCH


def planned(actions: Iterable[Action], incident: datetime, within: timedelta) -> str:
    """What was asked of an instance that explains why it does not run; "" for nothing.

    Args:
        actions: newest first.
        incident: when it was seen not to run.
        within: so long before that it may have been asked for.
    """
    for one in actions:
        if one.name in _ENDS and not one.by_service and one.started >= incident - within:
            return f"{one.name} at {one.started:%H:%M:%SZ}"
    return ""


def started(actions: Iterable[Action], incident: datetime) -> str:
    """What was asked of an instance since the incident that makes a restart needless."""
    for one in actions:
        if one.name in _STARTS and not one.by_service and one.started >= incident:
            return f"{one.name} at {one.started:%H:%M:%SZ}"
    return ""
