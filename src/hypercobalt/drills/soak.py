"""A drill of random failures: hosts, guests, networks, disks and the control plane, in waves.

A wave is up to three failures at once, each for a while. Then everything is mended, and the lab
has to become whole again: every host in service, every guest in one QEMU and writing. A guest whose
QEMU nothing has ended must have been left alone. The seed makes the plan; what the lab does in
between is its own.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from typing import Final

from hypercobalt.drills.control_plane import deployment
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.hosts import RECOVERY, is_back
from hypercobalt.drills.record import DrillError, Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.drills.storage import fail_on
from hypercobalt.lab import agents, control, kubelet
from hypercobalt.lab import operator as lab_operator
from hypercobalt.lab.bmc.faults import Fault as BmcFault
from hypercobalt.lab.host import Power
from hypercobalt.lab.storage.faults import Fault as StorageFault

SHORT: Final = timedelta(minutes=3)
HOSTS: Final = 3
VMS_PER_HOST: Final = 4
_BACK = 180.0
_BMC: Final = "the BMC of "
_WRITES = 240.0
"""Seconds: a guest reads its ledger to the end before it writes; 3,000 records took 110."""

Act = Callable[[Stage, str], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can fail.

    Args:
        name: what happens, for the timeline.
        begin: makes it fail; gets the name of a host, or of a guest.
        mend: gives it back; None where the failure is over at once.
        longest: seconds until it is mended.
        of: what fails: a host, its BMC, a guest, or the control plane.
        ends: guests may be started anew, or moved, because of it; the others must live through it.
    """

    name: str
    begin: Act
    mend: Act | None = None
    longest: float = 20
    of: str = "host"
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Strike:
    """One failure of a wave: what, where, and for how many seconds."""

    fault: Fault
    target: str
    seconds: float


@dataclass(slots=True)
class Tally:
    """What has come of all waves.

    Args:
        faults: how often each has failed, by its name.
        recovered: seconds from the begin of its wave to the new QEMU of a guest, for each.
        moved: how many of these are on another host.
        whole: seconds from the begin of a wave until everything was whole again.
        false: guests that were recovered although nothing had ended them, a sentence each.
    """

    faults: Counter[str] = field(default_factory=Counter[str])
    recovered: list[float] = field(default_factory=list[float])
    moved: int = 0
    whole: list[float] = field(default_factory=list[float])
    false: list[str] = field(default_factory=list[str])

    def figures(self) -> dict[str, float]:
        """For the record: counts and seconds."""
        spans = {"recovery": self.recovered, "whole": self.whole}
        return {
            "waves": len(self.whole),
            "faults": self.faults.total(),
            **{f"faults ({name})": count for name, count in sorted(self.faults.items())},
            "recoveries": len(self.recovered),
            "recoveries_elsewhere": self.moved,
            **{f"{name}_p50": round(median(of), 1) for name, of in spans.items() if of},
            **{f"{name}_max": round(max(of), 1) for name, of in spans.items() if of},
            "false_recoveries": len(self.false),
        }


def plan(seed: int, waves: int, hosts: tuple[str, ...], vms: tuple[str, ...]) -> list[list[Strike]]:
    """The waves of a seed: each of one to three failures in different places. Pure."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    bmcs = tuple(f"{_BMC}{host}" for host in hosts)
    targets = {"host": hosts, "guest": vms, "bmc": bmcs, "plane": ("the control plane",)}
    found: list[list[Strike]] = []
    for _ in range(waves):
        strikes: list[Strike] = []
        for fault in chance.sample(FAULTS, chance.choice((1, 2, 2, 3))):
            free = [one for one in targets[fault.of] if one not in {s.target for s in strikes}]
            if free:
                seconds = round(chance.uniform(1, fault.longest), 1)
                strikes.append(Strike(fault, chance.choice(free), seconds))
        found.append(strikes)
    return found


def has_ended(strikes: Sequence[Strike], vm: str, host: str) -> bool:
    """Whether a guest on that host had to be started anew, or moved. Pure."""
    return any(strike.fault.ends and strike.target in {vm, host} for strike in strikes)


def soak(seed: int = 1, lasts: timedelta = SHORT) -> Drill:
    """The drill of a seed; it begins its last wave before `lasts` is over."""

    async def play(stage: Stage) -> None:
        names = tuple(host.name for host in stage.lab.hosts)
        vms = tuple([vm for name in names for vm in await stage.vms(name, VMS_PER_HOST)])
        end = time.monotonic() + lasts.total_seconds()
        tally = Tally()
        try:
            for strikes in plan(seed, int(lasts.total_seconds()), names, vms):
                if time.monotonic() >= end:
                    break
                await _wave(stage, strikes, vms, tally)
        finally:
            stage.record.figures |= tally.figures()
            stage.record.figures["double_runs"] = len(stage.witness.double_runs)
            stage.record.figures["corruptions"] = len(stage.ledgers())
        if tally.false:
            raise DrillError(f"restarted or moved for nothing: {'; '.join(tally.false)}")

    purpose = f"Random failures, seed {seed}: no guest is lost, none runs twice."
    return Drill("soak", purpose, play, HOSTS)


async def _wave(stage: Stage, strikes: list[Strike], vms: tuple[str, ...], tally: Tally) -> None:
    before = {vm: one for vm in vms for one in stage.emulators(vm)}
    left = sorted(strikes, key=lambda strike: strike.seconds)
    began = time.monotonic()
    for strike in left:
        text = f"{strike.target}: {strike.fault.name}, {strike.seconds:g} s"
        await stage.do(text, strike.fault.begin(stage, strike.target))
        tally.faults[strike.fault.name] += 1
    for strike in left:
        # The length of the failure itself, which the plan has drawn.
        await asyncio.sleep(max(0.0, began + strike.seconds - time.monotonic()))
        if strike.fault.mend:
            await strike.fault.mend(stage, strike.target)
    async with deployment(stage):
        for host in stage.lab.hosts:  # one that was fenced may be off
            if host.power is Power.OFF:
                await stage.do(f"{host.name} boots", stage.lab.up_host(host))
        for host in stage.lab.hosts:
            await stage.becomes(host.name, "in service", is_back, within=_BACK)
        await stage.runs(vms, within=RECOVERY)
        await _all_write(stage, vms)
    for vm in vms:
        (now,) = stage.emulators(vm)
        if now.pid == before[vm].pid:
            continue
        where, then = stage.host_of(before[vm]), stage.witness.first_seen(now.pid) - began
        tally.recovered.append(then)
        tally.moved += now.machine != before[vm].machine
        if not has_ended(strikes, vm, where):
            causes = ", ".join(f"{one.target}: {one.fault.name}" for one in strikes)
            tally.false.append(f"{vm} on {where} ({causes})")
            stage.record.add(Mark.FAILED, f"restarted or moved for nothing: {tally.false[-1]}")
    tally.whole.append(time.monotonic() - began)
    stage.record.add(Mark.SEEN, "everything is whole again", tally.whole[-1])


async def _all_write(stage: Stage, vms: tuple[str, ...]) -> None:
    before = {vm: stage.records(vm) for vm in vms}

    async def check() -> bool:
        return all(stage.records(vm) > before[vm] for vm in vms)

    await stage.until("every guest writes to its disk", check, within=_WRITES)


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
        stage.lab.boards.fault(target.removeprefix(_BMC)).write(fault)

    return act


async def _boot(stage: Stage, host: str) -> None:
    await stage.lab.up_host(stage.host(host))


async def _thaw(stage: Stage, host: str) -> None:
    if stage.host(host).power is Power.FROZEN:  # else it was fenced meanwhile
        await stage.host(host).thaw()


async def _connect(stage: Stage, host: str) -> None:
    if stage.host(host).power is not Power.OFF:
        await stage.host(host).wire.restore()


def _storage(fault: StorageFault | None) -> Act:
    async def act(stage: Stage, host: str) -> None:
        fail_on(stage, stage.host(host), fault)

    return act


def _systemctl(*arguments: str) -> Act:
    async def act(stage: Stage, host: str) -> None:
        if stage.host(host).power is Power.RUNNING:
            await stage.host(host).run("systemctl", *arguments)

    return act


def _kill_role(role: str) -> Act:
    async def act(stage: Stage, _target: str) -> None:
        await stage.kill(role)

    return act


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
)
