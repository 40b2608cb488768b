"""Drills in which instances fail and their host lives."""

from __future__ import annotations

import os
import signal
from datetime import timedelta

from hypercobalt.drills.drill import Drill
from hypercobalt.drills.record import DrillError, Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import processes
from hypercobalt.lab.vms.virsh import virsh

_DAEMON = "libvirtd.service"
_SOCKETS = ("libvirtd.socket", "libvirtd-ro.socket", "libvirtd-tcp.socket")
_HANG = 480.0  # seconds: probes each 30 s, and their silence has to last
_ENDS = timedelta(seconds=10)
_QUIET = 15.0  # long enough for a recovery that must not come


def kill(stage: Stage, vm: str) -> int:
    """Kill the QEMU of a VM, and give its process id."""
    (emulator,) = stage.emulators(vm)
    os.kill(emulator.pid, signal.SIGKILL)
    stage.record.add(Mark.DONE, f"the QEMU of {vm} is killed")
    return emulator.pid


async def end(stage: Stage, vm: str) -> int:
    """Kill the QEMU of a VM, wait until it has ended, and give its process id."""
    pid = kill(stage, vm)
    if not await processes.ended(pid, _ENDS):
        raise DrillError(f"the QEMU of {vm} does not end")
    return pid


async def crash(stage: Stage) -> None:
    (vm,) = await stage.vms("kvm-1")
    await stage.write(vm)
    killed = kill(stage, vm)
    began = stage.record.now
    await stage.runs([vm], within=60, not_pids=[killed])
    stage.record.measure("crash_to_restart", began)
    (emulator,) = stage.emulators(vm)
    if stage.host_of(emulator) != "kvm-1":
        raise DrillError(f"{vm} was started on {stage.host_of(emulator)}, not in place")
    await stage.write(vm)
    await stage.incident_ends("kvm-1", vm)


async def crash_unseen(stage: Stage) -> None:
    """Reasons of domains that are off are in libvirtd's memory only; no event comes afterwards."""
    (vm,) = await stage.vms("kvm-1")
    host = stage.host("kvm-1")
    await stage.do("libvirtd stops", host.run("systemctl", "stop", _DAEMON, *_SOCKETS))
    killed = kill(stage, vm)
    await stage.do("libvirtd's sockets open", host.run("systemctl", "start", *_SOCKETS))
    await stage.do("libvirtd starts", host.run("systemctl", "start", _DAEMON))
    await stage.runs([vm], within=60, not_pids=[killed])
    await stage.write(vm)


async def hung(stage: Stage) -> None:
    (vm,) = await stage.vms("kvm-1")
    (emulator,) = stage.emulators(vm)
    os.kill(emulator.pid, signal.SIGSTOP)
    stage.record.add(Mark.DONE, f"the QEMU of {vm} stops where it is")
    began = stage.record.now
    await stage.runs([vm], within=_HANG, not_pids=[emulator.pid])
    stage.record.measure("hang_to_restart", began)
    await stage.write(vm)


async def stays_off(stage: Stage, vm: str) -> None:
    async def is_off() -> bool:
        return not stage.emulators(vm) and not await stage.evictions()

    await stage.until(f"{vm} is off", is_off, within=20)
    await stage.stays(f"{vm} is off, without an Eviction", is_off, seconds=_QUIET)


async def guest_poweroff(stage: Stage) -> None:
    (vm,) = await stage.vms("kvm-1", program="poweroff")
    await stays_off(stage, vm)


async def dump(stage: Stage) -> None:
    """A restart at once would cut the dump short; nothing is restarted, as the guest reboots."""
    (vm,) = await stage.vms("kvm-1", program="dump")
    before = [one.pid for one in stage.emulators(vm)]
    await stage.incident_begins("kvm-1", vm)
    began = stage.record.now
    await stage.incident_ends("kvm-1", vm)
    stage.record.measure("dump_to_reboot", began)

    async def is_left_alone() -> bool:
        same = [one.pid for one in stage.emulators(vm)] == before
        return same and not await stage.evictions()

    await stage.stays(
        f"{vm} is left in its QEMU, without an Eviction", is_left_alone, seconds=_QUIET
    )


async def destroyed(stage: Stage) -> None:
    (vm,) = await stage.vms("kvm-1")
    host = stage.host("kvm-1")
    await stage.do(f"virsh destroy {vm}, by a person", virsh(host, "destroy", vm))
    await stays_off(stage, vm)


DRILLS = (
    Drill("vm-crash", "A QEMU is killed: its instance is restarted in place.", crash, hosts=1),
    Drill(
        "vm-crash-unseen",
        "A QEMU dies while libvirtd is down: restarted.",
        crash_unseen,
        1,
        in_ci=False,
    ),
    Drill(
        "vm-hung",
        "A QEMU hangs, which sends no event: restarted in place, after 5 min.",
        hung,
        1,
        in_ci=False,
    ),
    Drill("vm-dump", "A guest saves its memory after a panic: it may finish that.", dump, hosts=1),
    Drill("vm-poweroff", "A guest powers itself off: it stays off.", guest_poweroff, hosts=1),
    Drill(
        "vm-destroyed", "A person destroys a domain: it stays off.", destroyed, hosts=1, in_ci=False
    ),
)
