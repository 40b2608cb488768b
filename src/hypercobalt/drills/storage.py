"""Drills in which the disks that the hosts share fail."""

from __future__ import annotations

from hypercobalt.api.incident import IncidentType
from hypercobalt.drills.configuration import active, configure
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.measure import Writes, memory_kib, writes
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import shared_mount
from hypercobalt.lab.host import Host
from hypercobalt.lab.storage.faults import StorageFault
from hypercobalt.lab.vms.virsh import virsh

_PAUSED = 30.0
_RESUMED = 120.0
_QUIET = 20.0  # long enough for an Eviction that must not come

_SOON = "thresholds: {ioErrors: {count: 5, within: 10s}}\n"
"""Errors persist after 20 s instead of two minutes."""
_PERSISTS = 60.0
_FLOOD = 1_000
"""Errors a minute of one guest that are one, also on a busy machine."""
_GROWTH_KIB = 8 * 1024
_EVERY = 5.0
"""Seconds between two writes of incidents."""
_WRITES_BESIDE = 8
"""Writes of the operator, and of an instance that leaves."""


def fail(stage: Stage, fault: StorageFault | None) -> None:
    """Set what is wrong with the shared disks of every host."""
    for host in stage.lab.hosts:
        fail_on(stage, host, fault)


def fail_on(stage: Stage, host: Host, fault: StorageFault | None) -> None:
    """Set what is wrong with the shared disks of one host."""
    shared_mount.faults(stage.lab.layout).write(host.machine, fault)


async def full(stage: Stage) -> None:
    vms = {vm: name for name in ("kvm-1", "kvm-2") for vm in await stage.vms(name, 3)}
    pids = stage.pids([*vms])

    async def are_paused() -> bool:
        states = [await virsh(stage.host(host), "domstate", vm) for vm, host in vms.items()]
        return {state.strip() for state in states} == {"paused"}

    async def nothing_begins() -> bool:
        # Not "paused": the agent resumes a guest now and then, and it runs until its next error.
        writes_nothing = all(stage.records(vm) == records for vm, records in written.items())
        return writes_nothing and not await stage.evictions()

    fail(stage, StorageFault.FULL)
    await stage.until("the pool is full: every guest is paused", are_paused, within=_PAUSED)
    written = {vm: stage.records(vm) for vm in vms}
    await stage.stays("no Eviction begins, no guest writes", nothing_begins, seconds=_QUIET)

    async def go_on() -> bool:
        return all(stage.records(vm) > records for vm, records in written.items())

    fail(stage, None)
    await stage.until("the pool has space: every guest writes again", go_on, within=_RESUMED)
    if stage.pids([*vms]) != pids:
        raise DrillError("a guest was restarted or moved")
    if made := await stage.evictions():
        raise DrillError(f"Evictions were made: {', '.join(one.metadata.name for one in made)}")


async def flood(stage: Stage) -> None:
    """A guest that gets each error repeats the failed request at once: thousands a minute.

    QEMU cannot migrate away from storage that refuses even a flush; from a full pool it can.
    """
    await configure(stage, _SOON)
    await active(stage, "kvm-1", _SOON)
    host = stage.host("kvm-1")
    (alone,) = await stage.vms("kvm-1", program="flood-disk", error_policy="report")
    memory = await memory_kib(host)
    fail_on(stage, host, StorageFault.FULL)
    async with writes(stage, "kvm-1") as counted:
        await stage.until("one Eviction of it", stage.evictions, within=_PERSISTS)
        await stage.runs([alone], elsewhere="kvm-1", within=60)
        await _is_bounded(stage, counted, memory)
    if len(made := await stage.evictions()) != 1:
        raise DrillError(f"{len(made)} Evictions of one guest, not 1")
    fail_on(stage, host, None)
    names = {one.metadata.name for one in made}
    pair = await stage.vms("kvm-1", 2, "write-disk", "report")
    fail_on(stage, host, StorageFault.DENY)

    async def is_shared() -> bool:
        found = (await stage.hypervisor("kvm-1")).status.incidents or ()
        return any(one.type == IncidentType.STORAGE_DEGRADED for one in found)

    await stage.until("errors of two guests are one of their storage", is_shared, within=_PERSISTS)

    async def nothing_begins() -> bool:
        return {one.metadata.name for one in await stage.evictions()} == names

    await stage.stays("no further Eviction begins", nothing_begins, seconds=_QUIET)
    if not all(stage.emulators(vm) for vm in pair):
        raise DrillError("a guest was ended")


async def _is_bounded(stage: Stage, counted: Writes, memory: int) -> None:
    host, figures = stage.host("kvm-1"), stage.record.figures
    figures["errors"] = counted.errors
    figures["errors_per_minute"] = round(60 * counted.errors / max(1.0, counted.errors_seconds))
    figures["writes"] = counted.count
    figures["agent_grew_kib"] = await memory_kib(host) - memory
    if counted.count > counted.seconds / _EVERY + _WRITES_BESIDE:
        raise DrillError(f"{counted.count} writes of the status in {counted.seconds:.0f} s")
    if figures["errors_per_minute"] < _FLOOD:
        raise DrillError(f"no flood: {figures['errors_per_minute']:g} errors a minute")
    if figures["agent_grew_kib"] > _GROWTH_KIB:
        raise DrillError(f"the node agent grew by {figures['agent_grew_kib']:g} KiB")


DRILLS = (
    Drill("pool-full", "The pool is full on all hosts: guests wait, none is moved.", full, hosts=2),
    Drill(
        "io-flood",
        "Thousands of I/O errors a minute: one Eviction of the guest, few writes; none for two.",
        flood,
        2,
    ),
)
