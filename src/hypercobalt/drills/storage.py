"""Drills in which the disks that the hosts share fail."""

from __future__ import annotations

from hypercobalt.drills.drill import Drill
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import shared_mount
from hypercobalt.lab.storage.faults import Fault
from hypercobalt.lab.vms.virsh import virsh

_PAUSED = 30.0
_RESUMED = 120.0
_QUIET = 20.0  # long enough for an Eviction that must not come


def fail(stage: Stage, fault: Fault | None) -> None:
    """Set what is wrong with the shared disks of every host."""
    faults = shared_mount.faults(stage.lab.layout)
    for host in stage.lab.hosts:
        faults.write(host.machine, fault)


async def full(stage: Stage) -> None:
    vms = [(name, vm) for name in ("kvm-1", "kvm-2") for vm in await stage.vms(name, 3)]
    pids = {emulator.pid for _, vm in vms for emulator in stage.emulators(vm)}

    async def are_paused() -> bool:
        states = [await virsh(stage.host(host), "domstate", vm) for host, vm in vms]
        return {state.strip() for state in states} == {"paused"}

    async def nothing_begins() -> bool:
        return await are_paused() and not await stage.evictions()

    fail(stage, Fault.FULL)
    await stage.until("the pool is full: every guest is paused", are_paused, within=_PAUSED)
    await stage.stays("no Eviction begins", nothing_begins, seconds=_QUIET)

    async def go_on() -> bool:
        return all(stage.records(vm) > records for vm, records in written.items())

    written = {vm: stage.records(vm) for _, vm in vms}
    fail(stage, None)
    await stage.until("the pool has space: every guest writes again", go_on, within=_RESUMED)
    running = {emulator.pid for _, vm in vms for emulator in stage.emulators(vm)}
    if running != pids:
        raise DrillError("a guest was restarted or moved")
    if made := await stage.evictions():
        raise DrillError(f"Evictions were made: {', '.join(one.metadata.name for one in made)}")


DRILLS = (
    Drill("pool-full", "The pool is full on all hosts: guests wait, none is moved.", full, hosts=2),
)
