"""One status out of the board and what the API has. Pure.

What the board does not have is kept as stored, so that an agent that starts while libvirt is down
removes nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import msgspec

from hypercobalt.adapters.host.boot import Boot
from hypercobalt.agent.status import conditions
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.ha.crash_loop import remembered
from hypercobalt.node_agent.status.inventory import FIELDS, launched, status_of
from hypercobalt.node_agent.status.parts import Parts


def compose(
    parts: Parts, stored: Hypervisor, kept: HypervisorStatus, own: Collection[str]
) -> HypervisorStatus:
    """Return the agent's part of the status.

    Args:
        parts: the board.
        stored: the object as the API has it.
        kept: the status as it was when this process first saw the object.
        own: condition types that are the agent's; others are left out.
    """
    if parts.inventory is not None:
        status = status_of(parts.inventory, stored.spec.overcommit, parts.launchers or ())
    else:
        status = HypervisorStatus(**{name: getattr(kept, name) for name in FIELDS})
    status = with_launchers(status, parts, kept)
    boot = boot_of(parts, kept)
    return msgspec.structs.replace(
        status,
        bootID=boot.id or None,
        bootedAt=boot.at,
        recentBoots=recent_boots(kept, boot),
        operatingSystem=parts.operating_system or kept.operatingSystem,
        updateStatus=parts.update or kept.updateStatus,
        guestsStopped=parts.guests_stopped or kept.guestsStopped,
        peerReports=kept.peerReports if parts.peer_reports is None else parts.peer_reports,
        diagnostics=parts.diagnostics,
        incidents=kept.incidents if parts.incidents is None else parts.incidents,
        conditions=conditions(parts.conditions, stored.conditions, own, stored.metadata.generation),
    )


def boot_of(parts: Parts, kept: HypervisorStatus) -> Boot:
    """Return the boot of the board; as stored where it is not known, or could not be read.

    The operator recovers no host, and keeps the record of no silent one, whose boot has no ID.
    """
    read, known = parts.boot, Boot(kept.bootID or "", kept.bootedAt)
    if read is None or (known.id and not read.id):
        return known
    return known if read.id == known.id and read.at is None else read


def with_launchers(
    status: HypervisorStatus, parts: Parts, kept: HypervisorStatus
) -> HypervisorStatus:
    """Return the status with the launcher pods of the board, or as stored while none was read."""
    if parts.launchers is None:
        shown = tuple(one for one in kept.instances if one.namespace is not None)
    else:
        shown = launched(parts.launchers)
    domains = tuple(one for one in status.instances if one.namespace is None)
    counted = (status.numInstances or 0) - (len(status.instances) - len(domains))
    if not shown and len(domains) == len(status.instances):
        return status
    return msgspec.structs.replace(
        status, instances=(*shown, *domains), numInstances=counted + len(shown)
    )


def recent_boots(kept: HypervisorStatus, boot: Boot) -> tuple[datetime, ...]:
    """Return when the host was booted again of late; its first reported boot does not count."""
    if boot.at is None or not kept.bootID or boot.id in {"", kept.bootID}:
        return kept.recentBoots
    return remembered(kept.recentBoots, boot.at)
