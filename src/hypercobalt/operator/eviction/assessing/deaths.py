"""Finds the instances that have died on their host, by its node agent's reports. Pure.

Nova stops a server whose guest has died just as one whose guest has shut itself down, shows neither
reason, and shows it as running for some seconds before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from hypercobalt.api.eviction import EvictionInstance, EvictionMode, Trigger
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import MOST, Incident, IncidentType, Reaction, Severity
from hypercobalt.compute.model import Server, ServerStatus
from hypercobalt.operator.eviction.assessing.witnesses import sighting
from hypercobalt.operator.eviction.model.states import Sighting

_DEATHS: Final = frozenset(
    {
        IncidentType.CRASH,
        IncidentType.ENDED_BY_BOOT,
        IncidentType.HOST_OUT_OF_MEMORY,
        IncidentType.MANY_CRASHES,
    }
)

Death: TypeAlias = tuple[str, str | None, datetime | None]
"""An incident, its instance (None: of the host as a whole) and when it was seen last."""


def with_deaths(servers: Iterable[Server], hypervisor: Hypervisor | None) -> tuple[Server, ...]:
    """Return the servers, with those marked that have died by the agent's report alone.

    Args:
        servers: on the host.
        hypervisor: of the host. An incident of the host stands for those of many instances.
    """
    died = {incident.instance for incident in _deaths(hypervisor)}
    return tuple(
        replace(server, died=True)
        if server.died is None
        and server.status == ServerStatus.SHUTOFF
        and not died.isdisjoint({server.id, None})
        else server
        for server in servers
    )


def ran_until_it_died(server: Server, hypervisor: Hypervisor | None) -> bool:
    """Whether a server that has died ran until then by its node agent's report, old or new.

    libvirt calls each domain dead that it has not seen running since its host booted. An incident
    that is only reported does not count: high availability has left that instance off.

    Args:
        server: on the host.
        hypervisor: of the host. Its agent may not have reported since the host booted.
    """
    if hypervisor is None or not server.died:
        return False
    if any(
        instance.id == server.id and instance.active for instance in hypervisor.status.instances
    ):
        return True
    return any(
        incident.reaction != Reaction.REPORT and incident.instance == server.id
        for incident in _deaths(hypervisor)
    )


def is_revived(server: Server, hypervisor: Hypervisor | None, trigger: str | None) -> bool:
    """Whether an instance that had crashed runs now by its node agent's report.

    After another trigger, the guest of a hanging instance runs all the time.

    Args:
        server: on the host.
        hypervisor: of the host.
        trigger: of the Eviction.
    """
    if hypervisor is None or trigger != Trigger.INSTANCE_CRASH:
        return False
    return sighting(server.id, hypervisor) is Sighting.RUNS


def may_be_unnamed(server: Server, hypervisor: Hypervisor | None) -> bool:
    """Whether the host's status may lack the incident of a server that is off, for want of room.

    The status lists the gravest incidents; each that is over makes room for the next one.

    Args:
        server: on the host.
        hypervisor: of the host.
    """
    incidents = hypervisor.status.incidents if hypervisor is not None else ()
    if server.status != ServerStatus.SHUTOFF or server.died is False:
        return False
    if len(incidents) < MOST or any(one.severity == Severity.INFO for one in incidents):
        return False
    return all(one.instance != server.id for one in incidents)


def is_to_run(entry: EvictionInstance) -> bool:
    """Whether an instance that was moved cold ran until it died, and did not start on its host."""
    return bool(entry.ran) and entry.mode == EvictionMode.COLD


def has_just_died(
    server: Server, hypervisor: Hypervisor | None, within: timedelta, now: datetime
) -> bool:
    """Whether a server that may have died is still shown as running.

    Args:
        server: on the host.
        hypervisor: of the host.
        within: how long the compute service may take to find out.
        now: with the clock of the node agent within some seconds of it.
    """
    return server.running and any(
        incident.instance == server.id
        and incident.lastSeen is not None
        and now - incident.lastSeen < within
        for incident in _deaths(hypervisor)
    )


def reported(hypervisor: Hypervisor | None) -> frozenset[Death]:
    """Return the deaths that the node agent reports; each new or repeated one changes the set."""
    return frozenset(
        (incident.id, incident.instance, incident.lastSeen) for incident in _deaths(hypervisor)
    )


def _deaths(hypervisor: Hypervisor | None) -> Iterator[Incident]:
    incidents = hypervisor.status.incidents if hypervisor is not None else ()
    return (incident for incident in incidents if incident.type in _DEATHS)
