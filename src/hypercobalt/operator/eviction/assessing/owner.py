"""Decides whether the owner of an instance has requested its end. Pure.

Nova's own power sync, which stops an instance whose guest has died, has no user and does not count.

Source: Nova, nova/compute/instance_actions.py; docs/ha.md, planned and unplanned.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import LABEL, SINCE
from hypercobalt.api.times import TimeError, parse_time
from hypercobalt.compute.model import ServerAction

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
"""Requests that end a guest, or may: a fault is injected into it to take a crash dump."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_STARTS: Final = frozenset({"start", "reboot", "resume", "unpause"})
_STOPS: Final = frozenset(
    {"delete", "pause", "rescue", "shelve", "shelveOffload", "stop", "suspend"}
)
"""Requests after which an instance does not run; after others it is as before, or runs."""


def incident_of(eviction: Eviction, hypervisor: Hypervisor | None) -> datetime:
    """Return when the cause of an Eviction was first seen, else when the Eviction was made.

    The status of its host may no longer have the incident, or not yet. An agent from before the
    annotation has it in the status only.
    """
    with suppress(TimeError):
        return parse_time(eviction.metadata.annotations.get(SINCE, ""))
    wanted = eviction.metadata.labels.get(LABEL)
    incidents = hypervisor.status.incidents if hypervisor is not None else ()
    seen = next((incident.firstSeen for incident in incidents if incident.id == wanted), None)
    return seen or eviction.metadata.creationTimestamp or _EPOCH


def planned(actions: Iterable[ServerAction], incident: datetime, within: timedelta) -> str:
    """Return the request that explains why an instance does not run; "" for none.

    Args:
        actions: newest first.
        incident: when it was seen not to run.
        within: how long before the incident the request may have come. One that has failed counts
            only if its requester wants the instance not to run.
    """
    for action in actions:
        counts = action.name in (_STOPS if action.failed else _ENDS) and not action.by_service
        if counts and action.started >= incident - within:
            return f"{action.name} at {action.started:%H:%M:%SZ}"
    return ""


def is_ended(actions: Iterable[ServerAction]) -> bool:
    """Whether the newest request is one after which an instance does not run.

    Args:
        actions: newest first; one that neither stops nor starts a guest (`lock`, `resize`, a move
            …) changes nothing: the instance should run as before.
    """
    newest = next((action for action in actions if action.name in _STOPS | _STARTS), None)
    return newest is not None and newest.name in _STOPS and not newest.by_service


def started(actions: Iterable[ServerAction], incident: datetime) -> str:
    """Return the request since the incident that makes a restart needless; "" for none.

    Args:
        actions: newest first. The newest one that starts a guest counts, unless it has failed.
        incident: when it was seen not to run.
    """
    starts = (one for one in actions if one.name in _STARTS and not one.by_service)
    newest = next((one for one in starts if one.started >= incident), None)
    if newest is None or newest.failed:
        return ""
    return f"{newest.name} at {newest.started:%H:%M:%SZ}"
