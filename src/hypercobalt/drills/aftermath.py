"""State of the lab when a drill fails: what its objects have, where guests run, what was logged.

The lab is gone a moment later, and what has failed often does not fail again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from hypercobalt.api.conditions import Condition
from hypercobalt.api.eviction import CheckResult, Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.drills.record import Mark
from hypercobalt.drills.stage import Stage, is_ready
from hypercobalt.errors import HypercobaltError, words
from hypercobalt.lab.host import Host, HostPower

_READ_SECONDS: Final = 30.0
_COMMAND: Final = timedelta(seconds=5)
_LINES: Final = 60
"""Number of lines of the operator's log."""
_OF_A_HOST: Final = 30
"""Number of lines of a host's journal."""
_HEAD: Final = ("Id ", "---")
"""Beginnings of the lines that virsh prints above the domains."""
_LONGEST: Final = 500
"""Characters of one line."""
_BELONGS: Final = "cobalt["
"""Mark of the lines of the journal that our agents have written."""


async def note(stage: Stage) -> None:
    """Add the state of the lab to the record of a drill that has failed."""
    for part in (_objects, _domains, _logs):
        try:
            async with asyncio.timeout(_READ_SECONDS):
                lines = await part(stage)
        except (HypercobaltError, OSError, TimeoutError) as error:
            lines = [f"the state of the lab cannot be read: {words(error)}"]
        for line in lines:
            stage.record.add(Mark.STATE, line[:_LONGEST])


async def _objects(stage: Stage) -> list[str]:
    hypervisors = (await stage.kube.list(Hypervisor)).items
    evictions = (await stage.kube.list(Eviction)).items
    return [
        *(line for one in hypervisors for line in of_hypervisor(one)),
        *(line for one in evictions for line in of_eviction(one)),
    ]


def of_hypervisor(hypervisor: Hypervisor) -> Iterator[str]:
    """Yield what a Hypervisor has: fencing, incidents, and conditions unless all is well."""
    status, name = hypervisor.status, hypervisor.metadata.name
    mode = hypervisor.spec.maintenance or "none"
    phase = status.recovery.phase if status.recovery is not None else "none"
    serves = status.recovery is None and hypervisor.fencing is None and is_ready(hypervisor)
    yield f"Hypervisor {name}: maintenance {mode}, recovery {phase}"
    for one in hypervisor.conditions:
        if not serves or one.type == HypervisorConditionType.READY:
            yield f"Hypervisor {name}: {_of(one)}"
    if (fencing := hypervisor.fencing) is not None:
        lives = f", lives since {fencing.livesSince}" if fencing.livesSince else ""
        yield (
            f"Hypervisor {name}: fencing {fencing.phase} by {fencing.method}, boot "
            f"{fencing.bootID}, proven {fencing.fencedAt}, down {fencing.forcedDownAt}{lives}"
        )
        yield from (f"Hypervisor {name}: evidence: {text}" for text in fencing.evidence)
    for incident in status.incidents:
        yield f"Hypervisor {name}: incident {incident.type} of {incident.instance or 'the host'}"


def of_eviction(eviction: Eviction) -> Iterator[str]:
    """Yield what an Eviction has: conditions, checks that have not passed, every instance."""
    status, name = eviction.status, eviction.metadata.name
    going = ", is being deleted" if eviction.metadata.deletionTimestamp is not None else ""
    yield f"Eviction {name}: of {eviction.spec.hypervisor}, mode {eviction.spec.mode}{going}"
    yield from (f"Eviction {name}: {_of(one)}" for one in status.conditions)
    for check in status.checks:
        if check.result != CheckResult.PASSED:
            yield f"Eviction {name}: check {check.name} {check.result}: {check.message}"
    for one in status.instances:
        yield (
            f"Eviction {name}: {one.name or one.id} is {one.phase}, to {one.target or 'no host'}, "
            f"{one.attempts or 0} attempts: {one.message or 'no message'}"
        )


def _of(condition: Condition) -> str:
    since = f"{condition.lastTransitionTime:%H:%M:%S}"
    state = f"{condition.type} {condition.status}/{condition.reason} since {since}"
    return f"{state}: {condition.message}"


async def _domains(stage: Stage) -> list[str]:
    return [
        f"{host.name}: libvirt has: {' '.join(line.split())}"
        for host in stage.lab.hosts
        for line in await _printed(host, "virsh", "list", "--all")
        if not line.strip().startswith(_HEAD)
    ]


async def _logs(stage: Stage) -> list[str]:
    log = stage.lab.layout.log / "operator.log"
    text = await asyncio.to_thread(log.read_text, errors="replace")
    found = [f"operator: {line}" for line in text.splitlines()[-_LINES:]]
    for host in stage.lab.hosts:
        lines = await _printed(host, "journalctl", "--boot", "--no-pager", "--lines=400")
        agents = [line for line in lines if _BELONGS in line]
        found += [f"{host.name}: {line}" for line in agents[-_OF_A_HOST:]]
    return found


async def _printed(host: Host, *argv: str) -> list[str]:
    if host.power is not HostPower.RUNNING:
        return []
    try:
        text = await host.run(*argv, within=_COMMAND)
    except HypercobaltError as error:
        return [words(error)]
    return [line for line in text.splitlines() if line.strip()]
