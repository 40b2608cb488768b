"""Drills in which something fails while instances are migrated live."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from functools import partial

from hypercobalt.api.conditions import is_false
from hypercobalt.api.hypervisor import Hypervisor, is_evicted
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.faults import evict, resume
from hypercobalt.drills.outcomes import RECOVERY, all_in_service, recovered
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import kubelet
from hypercobalt.lab.host import Host

_GUESTS = 6  # some are on their way when the first has a QEMU elsewhere
_AWAY = 30.0  # seconds
_FULL = 64  # MiB of memory, which take a minute at 1 MiB/s


async def crash_while_moving(stage: Stage) -> None:
    """The source dies under a live migration: whichever side is left, the instance runs once."""
    (vm,) = await stage.vms("kvm-1")
    host = stage.host("kvm-1")
    (source,) = stage.emulators(vm)
    await stage.do(
        "only the kubelet of kvm-1 stops", host.run("systemctl", "stop", kubelet.SERVICE)
    )

    async def is_moving() -> bool:
        return any(one.pid != source.pid for one in stage.emulators(vm))

    await stage.until(f"the live migration of {vm} has begun", is_moving, within=RECOVERY)
    with suppress(ProcessLookupError):  # it was faster
        os.kill(source.pid, signal.SIGKILL)
    await stage.write(vm, within=RECOVERY)  # the target's QEMU is there, and waits for the source
    await stage.runs([vm], within=1, not_pids=[source.pid])
    await stage.do("the kubelet starts again", host.run("systemctl", "start", kubelet.SERVICE))
    await all_in_service(stage)
    await stage.runs([vm], within=1)


async def _first_target(stage: Stage, vms: tuple[str, ...]) -> Host:
    """Have a person empty kvm-1, and return the host where the first QEMU of a guest appears."""
    sources = stage.pids(vms)
    await stage.do("a person empties kvm-1", evict(stage, "kvm-1"))

    async def first() -> str | None:
        found = (one for vm in vms for one in stage.emulators(vm) if one.pid not in sources)
        return next((stage.host_of(one) for one in found), None)

    name = await stage.until("live migrations have begun", first, within=RECOVERY)
    return stage.host(name)


async def _given_back(stage: Stage, vms: tuple[str, ...]) -> None:
    await stage.do("kvm-1 goes back into service", resume(stage, "kvm-1"))
    await all_in_service(stage)
    await stage.runs(vms, within=1)


async def target_dies(stage: Stage) -> None:
    """Arrived instances are evacuated; migrating ones stay on the source, and leave again."""
    vms = await stage.vms("kvm-1", _GUESTS)
    target = await _first_target(stage, vms)
    await stage.power_cut(target.name)
    await stage.runs(vms, within=RECOVERY, elsewhere="kvm-1")
    await stage.write(*vms)
    await stage.do(f"{target.name} boots again", stage.lab.up_host(target))
    await _given_back(stage, vms)


async def both_ends_die(stage: Stage) -> None:
    """Two of four hosts are silent, so the gates hold until the target is back."""
    vms = await stage.vms("kvm-1", _GUESTS)
    target = await _first_target(stage, vms)
    began = stage.record.now
    await asyncio.gather(*(stage.power_cut(name) for name in ("kvm-1", target.name)))
    await asyncio.sleep(_AWAY)  # the length of the failure itself
    await stage.do(f"{target.name} boots again", stage.lab.up_host(target))
    await recovered(stage, "kvm-1", vms, began)
    await stage.do("kvm-1 boots again", stage.lab.up_host(stage.host("kvm-1")))
    await _given_back(stage, vms)


async def libvirtd_dies(stage: Stage) -> None:
    """Source and target lose their libvirtd, which resumes or undoes the moves under way."""
    vms = await stage.vms("kvm-1", _GUESTS)
    target = await _first_target(stage, vms)
    killed = ("systemctl", "kill", "--signal=KILL", "libvirtd.service")
    for host in (stage.host("kvm-1"), target):
        await stage.do(f"libvirtd of {host.name} is killed", host.run(*killed))
    await stage.runs(vms, within=RECOVERY, elsewhere="kvm-1")
    await stage.write(*vms)
    await _given_back(stage, vms)


async def incoming_move(stage: Stage) -> None:
    """A guest whose memory is full does not arrive before its migration is given more speed.

    That the guest rewrites its memory would not do: where it gets no CPU, it does so too slowly.
    """
    (vm,) = await stage.vms("kvm-2", program="dirty-memory", memory_mib=_FULL)
    speed, source = ("virsh", "migrate-setspeed", vm), stage.host("kvm-2")
    await stage.until(f"{vm} has filled its memory", partial(_writes, source, vm), within=60)
    async with asyncio.TaskGroup() as group:
        group.create_task(stage.fleet.move(vm, "kvm-1", mib_per_second=1), name="move")

        async def is_moving() -> bool:
            return len(stage.emulators(vm)) == 2  # noqa: PLR2004 - one on each host

        await stage.until(f"the live migration of {vm} to kvm-1 has begun", is_moving, within=30)
        await stage.do("a person empties kvm-1", evict(stage, "kvm-1"))
        await stage.becomes("kvm-1", "waits for the migration", _waits_for_move, within=30)

        async def is_not_empty() -> bool:
            return not (await stage.hypervisor("kvm-1")).status.evicted

        await stage.stays("kvm-1 does not count as empty", is_not_empty, seconds=8)
        await stage.do("the migration gets all bandwidth", source.run(*speed, "10000"))
    await stage.becomes("kvm-1", "empty", lambda host: host.status.evicted, within=90)
    await stage.runs([vm], within=1, elsewhere="kvm-1")


async def _writes(host: Host, vm: str) -> bool:
    """Whether a guest writes to its memory, as `dirty-memory` does once that is full."""
    await host.run("virsh", "domdirtyrate-calc", vm, "--seconds", "1")
    await asyncio.sleep(1.1)  # there is no event when it is done
    found = await host.run("virsh", "domstats", "--dirtyrate", vm)
    return "calc_status=2" in found and "megabytes_per_second=0" not in found


def _waits_for_move(hypervisor: Hypervisor) -> bool:
    return is_false(
        hypervisor.conditions, HypervisorConditionType.INCOMING_MIGRATIONS_SETTLED
    ) and not is_evicted(hypervisor)


DRILLS = (
    Drill(
        "incoming-move",
        "A host is emptied while a guest moves to it: empty only when that guest has left, too.",
        incoming_move,
        2,
    ),
    Drill(
        "crash-while-moving",
        "A QEMU is killed under its live migration: its instance runs once.",
        crash_while_moving,
        in_ci=False,
    ),
    Drill(
        "target-dies-moving",
        "A host loses power while instances move to it: each runs once, where it is or elsewhere.",
        target_dies,
        in_ci=False,
    ),
    Drill(
        "both-ends-die",
        "Both hosts of live migrations lose power: each instance runs once again.",
        both_ends_die,
        4,
        in_ci=False,
    ),
    Drill(
        "libvirtd-dies-moving",
        "libvirtd is killed on both hosts of live migrations: each instance runs once.",
        libvirtd_dies,
        in_ci=False,
    ),
)
