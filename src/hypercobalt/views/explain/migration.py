"""How far a live migration is, whether it will end, and who reports that. Pure.

The agent of the origin writes the statistics each second. A guest that writes memory faster than it
is sent never arrives without help: the two rates are compared here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.eviction import Eviction, evicting
from hypercobalt.api.iec import SizeError, parse_iec
from hypercobalt.api.migration import SERVER, Migration, MigrationStatus, MigrationType
from hypercobalt.views.explain.model import Explanation, Finding, Remedy, command
from hypercobalt.views.explain.reporters import AGENT, Reporters, is_late, renewed

_STATES: Final[Mapping[str, str]] = {
    MigrationType.BOUNDED: "Running",
    MigrationType.UNBOUNDED: "Running",
    MigrationType.COMPLETED: "Completed",
    MigrationType.SUCCESS: "Completed",
    MigrationType.FAILED: "Failed",
    MigrationType.CANCELLED: "Cancelled",
}


@dataclass(frozen=True, slots=True)
class ExplainedMigration:
    """What an explanation is made of.

    Args:
        migration: as read.
        now: when it was read.
        evictions: those that may have begun it.
        reporters: those who report about its origin.
    """

    migration: Migration
    now: datetime
    evictions: tuple[Eviction, ...] = ()
    reporters: Reporters = field(default_factory=Reporters)


def explain(facts: ExplainedMigration) -> Explanation:
    """Explain a Migration."""
    meta, status = facts.migration.metadata, facts.migration.status
    state = _state(status)
    running = state in {"Running", "Starting"}
    return Explanation(
        kind="Migration",
        name=f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name,
        at=facts.now,
        state=state,
        since=(status.started or meta.creationTimestamp) if running else None,
        summary=_summary(facts),
        waiting=tuple(_waiting(facts)) if running else tuple(_ended(facts, state)),
        also=tuple(_silent(facts)) if running else (),
        seen=facts.reporters.sightings(status.origin or "", facts.now),
    )


def server_of(migration: Migration) -> str:
    """UUID of the server; under the existing agent's names it is the object's own."""
    meta = migration.metadata
    return meta.labels.get(SERVER) or meta.name


def _state(status: MigrationStatus) -> str:
    return _STATES.get(status.type or "", "Starting")


def _summary(facts: ExplainedMigration) -> str:
    status = facts.migration.status
    way = f"{status.origin or 'an unknown host'} to {status.destination or 'a host not known yet'}"
    parts = [f"Server {server_of(facts.migration)} from {way}"]
    if status.dataTotal:
        left = f", {status.dataRemaining} left" if status.dataRemaining else ""
        parts.append(f"{status.dataProcessed or '0 B'} sent{left}")
    if status.downtime:
        parts.append(f"downtime {status.downtime}")
    if status.timeElapsed:
        parts.append(f"took or takes {status.timeElapsed}")
    return "; ".join(parts)


def _waiting(facts: ExplainedMigration) -> Iterable[Finding]:
    status, server = facts.migration.status, server_of(facts.migration)
    eviction = next((one for one in facts.evictions if _moves(one, server)), None)
    if eviction is not None:
        remedy = Remedy(
            "check the whole Eviction",
            command("cobalt explain eviction/{name}", name=eviction.metadata.name),
        )
    else:
        remedy = Remedy(
            "this migration belongs to no Eviction; `openstack server migration abort SERVER ID` "
            "stops it",
            command("openstack server migration list --server {server}", server=server),
        )
    yield Finding(_progress(status), reporter=AGENT, remedies=(remedy,))


def _progress(status: MigrationStatus) -> str:
    sent, written = _bytes(status.memBps), _dirtied(status)
    rounds = f", round {status.memIteration}" if status.memIteration else ""
    slowed = status.autoConvergeThrottle
    throttle = f", vCPUs slowed by {slowed}" if slowed and slowed != "0%" else ""
    if not sent:
        return f"libvirt to report progress{rounds}{throttle}"
    rates = f"memory is sent at {status.memBps}{rounds}{throttle}"
    if written is not None and written >= sent:
        return (
            f"{rates}, and the guest writes it at least as fast ({status.memDirtyRate} pages): it "
            "does not arrive without help (auto-converge, post-copy or a forced end)"
        )
    expected = f"; libvirt expects {status.timeRemaining} more" if status.timeRemaining else ""
    return f"the rest of the memory: {rates}{expected}"


def _ended(facts: ExplainedMigration, state: str) -> Iterable[Finding]:
    """What is left to do after a failure."""
    if state == "Completed":
        return
    server = server_of(facts.migration)
    remedy = Remedy(
        "check that the server runs, and on which host",
        command(
            "openstack server show {server} -c status -c OS-EXT-STS:power_state "
            "-c OS-EXT-SRV-ATTR:host",
            server=server,
        ),
    )
    text = facts.migration.status.errMsg or "no reason was reported"
    yield Finding(text, reporter=AGENT, remedies=(remedy,))


def _silent(facts: ExplainedMigration) -> Iterable[Finding]:
    """The statistics stand still when the agent of the origin is away."""
    lease = facts.reporters.agent
    if lease is not None and is_late(lease, facts.now):
        text = (
            f"The node agent of {facts.migration.status.origin} has not renewed its Lease: the "
            "statistics may be out of date"
        )
        remedy = Remedy(
            "check that host",
            command("cobalt explain {node}", node=facts.migration.status.origin or ""),
        )
        yield Finding(text, since=renewed(lease), remedies=(remedy,))


def _moves(eviction: Eviction, server: str) -> bool:
    found = evicting(eviction.status)
    under_way = found is not None and found.status == ConditionStatus.TRUE
    return under_way and any(entry.id == server for entry in eviction.status.instances)


def _dirtied(status: MigrationStatus) -> int | None:
    """Bytes that the guest writes in a second; None if that is not reported."""
    pages = (status.memDirtyRate or "").removesuffix("/s")
    size = _bytes(status.memPageSize)
    return int(pages) * size if pages.isascii() and pages.isdigit() and size else None


def _bytes(text: str | None) -> int | None:
    try:
        return parse_iec(text) if text else None
    except SizeError:
        return None
