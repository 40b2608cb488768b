"""Faults of the drill `soak`: hosts, guests, networks, disks, the control plane, people."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from hypercobalt.api.eviction import Eviction, has_ended
from hypercobalt.drills.record import Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.drills.storage import fail_on
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab import agents, control, kubelet
from hypercobalt.lab import operator as lab_operator
from hypercobalt.lab.bmc.faults import BoardFault as BmcFault
from hypercobalt.lab.commands import cobalt_command, run
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import HostPower
from hypercobalt.lab.ovn import Part
from hypercobalt.lab.storage.faults import StorageFault
from hypercobalt.operator.shared.evictions import is_recovery

BMC: Final = "the BMC of "
_ANSWER: Final = 15.0
"""Seconds that a person waits for an API server."""

Act = Callable[[Stage, str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can fail.

    Args:
        name: what happens, for the timeline.
        begin: makes it fail; gets the name of a host, or of a guest.
        repair: ends the failure; None where it is over at once.
        longest: seconds until it is repaired.
        of: what fails: a host, its BMC, a guest, the control plane, OVN; or who acts: a person.
        ends: its guests may be started again, or moved; other guests must live through it.
    """

    name: str
    begin: Act
    repair: Act | None = None
    longest: float = 20
    of: str = "host"
    ends: bool = False


def _signal(number: signal.Signals) -> Act:
    async def act(stage: Stage, vm: str) -> None:
        for emulator in stage.emulators(vm):
            os.kill(emulator.pid, number)

    return act


def _signal_role(role: str, number: signal.Signals) -> Act:
    async def act(stage: Stage, _target: str) -> None:
        stage.signal(role, number)

    return act


def _bmc(fault: BmcFault) -> Act:
    async def act(stage: Stage, target: str) -> None:
        stage.lab.boards.fault(target.removeprefix(BMC)).write(fault)

    return act


async def _boot(stage: Stage, host: str) -> None:
    await stage.lab.up_host(stage.host(host))


async def _thaw(stage: Stage, host: str) -> None:
    if stage.host(host).power is HostPower.FROZEN:  # else it was fenced meanwhile
        await stage.host(host).thaw()


async def _connect(stage: Stage, host: str) -> None:
    if stage.host(host).power is not HostPower.OFF:
        await stage.host(host).wire.restore()


def _storage(fault: StorageFault | None) -> Act:
    async def act(stage: Stage, host: str) -> None:
        fail_on(stage, stage.host(host), fault)

    return act


def _systemctl(*arguments: str) -> Act:
    async def act(stage: Stage, host: str) -> None:
        if stage.host(host).power is HostPower.RUNNING:
            await stage.host(host).run("systemctl", *arguments)

    return act


def _kill_role(role: str) -> Act:
    async def act(stage: Stage, _target: str) -> None:
        await stage.kill(role)

    return act


async def shut_down(stage: Stage, host: str) -> None:
    """Have a person shut a host down, who cuts its power when that takes too long."""
    try:
        await stage.host(host).shutdown()
    except LabError:  # it waits for its instances: the person has lost patience
        await stage.host(host).crash()


async def _hang_southbound(stage: Stage, _target: str) -> None:
    await stage.lab.central.hang([Part.SB])


async def _mend_southbound(stage: Stage, _target: str) -> None:
    await stage.lab.central.repair([Part.SB])


async def _order(stage: Stage, command: str, host: str) -> None:
    """Have a person give an order; an API server that does not answer is left alone."""
    kubeconfig = f"--kubeconfig={stage.lab.control.kubeconfig}"
    try:
        await run(
            str(cobalt_command()),
            command,
            host,
            kubeconfig,
            within=timedelta(seconds=_ANSWER),
        )
    except LabError as error:
        stage.record.add(Mark.SEEN, f"`cobalt {command} {host}` is refused: {error}")


async def evict(stage: Stage, host: str) -> None:
    """Have a person empty a host."""
    await _order(stage, "evict", host)


async def resume(stage: Stage, host: str) -> None:
    """Give a host back that a person has taken out of service."""
    await _order(stage, "resume", host)


async def _delete_recoveries(stage: Stage, _target: str) -> None:
    with suppress(TimeoutError, HypercobaltError):
        async with asyncio.timeout(_ANSWER):
            for one in await stage.evictions():
                if is_recovery(one) and not has_ended(one.status):
                    await stage.kube.delete(Eviction, one.metadata.name)


FAULTS: Final = (
    Fault("its QEMU is killed", _signal(signal.SIGKILL), of="guest", ends=True),
    Fault("its QEMU stops", _signal(signal.SIGSTOP), _signal(signal.SIGCONT), of="guest"),
    Fault("power cut", lambda stage, name: stage.host(name).crash(), _boot, longest=60, ends=True),
    Fault(
        "power cut, for minutes",
        lambda stage, name: stage.host(name).crash(),
        _boot,
        longest=150,
        ends=True,
    ),
    Fault("BMC refuses the password", _bmc(BmcFault.DENIED), _bmc(BmcFault.NONE), of="bmc"),
    Fault("BMC refuses orders", _bmc(BmcFault.CONFLICT), _bmc(BmcFault.NONE), 90, of="bmc"),
    Fault("BMC is slow", _bmc(BmcFault.SLOW), _bmc(BmcFault.NONE), 90, of="bmc"),
    Fault("freezes", lambda stage, name: stage.host(name).freeze(), _thaw, longest=60, ends=True),
    Fault(
        "cable pulled",
        lambda stage, name: stage.host(name).wire.cut(),
        _connect,
        longest=60,
        ends=True,
    ),
    Fault(
        "cable loses a tenth",
        lambda stage, name: stage.host(name).wire.worsen(
            delay=timedelta(milliseconds=50), loss_percent=10
        ),
        _connect,
    ),
    Fault("its disks hang", _storage(StorageFault.HANG), _storage(None)),
    Fault("its disks do not answer", _storage(StorageFault.CUT), _storage(None)),
    Fault("its disks refuse", _storage(StorageFault.DENY), _storage(None)),
    Fault("its disks are full", _storage(StorageFault.FULL), _storage(None)),
    Fault(
        "kubelet stops", _systemctl("stop", kubelet.SERVICE), _systemctl("start", kubelet.SERVICE)
    ),
    Fault("shuts down", shut_down, _boot, longest=100, ends=True),
    Fault("a person empties it", evict, resume, longest=60, ends=True),
    Fault(
        "node agent stops",
        _systemctl("kill", "--signal=STOP", agents.NODE_AGENT),
        _systemctl("kill", "--signal=CONT", agents.NODE_AGENT),
        longest=60,
    ),
    Fault(
        "libvirtd hangs",
        _systemctl("kill", "--signal=STOP", "libvirtd.service"),
        _systemctl("kill", "--signal=CONT", "libvirtd.service"),
        longest=45,
    ),
    Fault("libvirtd restarts", _systemctl("restart", "libvirtd.service")),
    Fault("libvirtd is killed", _systemctl("kill", "--signal=KILL", "libvirtd.service")),
    Fault("node agent is killed", _systemctl("kill", "--signal=KILL", agents.NODE_AGENT)),
    Fault(
        "the operator is killed",
        _kill_role(lab_operator.ROLE),
        lambda stage, _: stage.lab.operator.start(),
        of="plane",
    ),
    Fault(
        "the operator stops",
        _signal_role(lab_operator.ROLE, signal.SIGSTOP),
        _signal_role(lab_operator.ROLE, signal.SIGCONT),
        longest=45,
        of="plane",
    ),
    Fault(
        "the API server hangs",
        _signal_role(control.ROLE, signal.SIGSTOP),
        _signal_role(control.ROLE, signal.SIGCONT),
        longest=45,
        of="plane",
    ),
    Fault(
        "the API server is killed",
        _kill_role(control.ROLE),
        lambda stage, _: stage.lab.control.start(),
        of="plane",
    ),
    Fault("the southbound database hangs", _hang_southbound, _mend_southbound, 60, of="ovn"),
    Fault("the recoveries of hosts are deleted", _delete_recoveries, of="person"),
)
