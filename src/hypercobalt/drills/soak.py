"""A drill of random failures, in waves: of hosts, guests, networks, disks and the control plane.

A wave is up to three failures in different places; a later one may come while the first is there,
or recovered from. Then everything is repaired, and the lab has to become whole again: every host in
service, every guest in one QEMU and writing. A guest whose QEMU nothing has ended must have been
left alone. The seed makes the plan; what the lab does in between is its own.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median
from typing import Final

from hypercobalt.api.hypervisor import Maintenance
from hypercobalt.drills.control_plane import deployment
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.faults import BMC, FAULTS, Fault, resume
from hypercobalt.drills.outcomes import RECOVERY, all_in_service
from hypercobalt.drills.record import DrillError, Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.lab.host import HostPower

SHORT: Final = timedelta(minutes=3)
HOSTS: Final = 3
VMS_PER_HOST: Final = 4
LATEST: Final = 90.0
"""Seconds after the first failure of a wave: a host that has lost power then is being evacuated."""
_WRITES = 240.0
"""Seconds: a guest reads its ledger to the end before it writes; 3,000 records took 110."""


@dataclass(frozen=True, slots=True)
class Strike:
    """One failure of a wave: what, where, for how many seconds, and how many after the first."""

    fault: Fault
    target: str
    seconds: float
    after: float = 0.0


@dataclass(slots=True)
class Tally:
    """Results of all waves.

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
        """Counts and seconds for the record."""
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
    bmcs = tuple(f"{BMC}{host}" for host in hosts)
    targets = {
        "host": hosts,
        "guest": vms,
        "bmc": bmcs,
        "plane": ("the control plane",),
        "ovn": ("OVN",),
        "person": ("a person",),
    }
    found: list[list[Strike]] = []
    for _ in range(waves):
        strikes: list[Strike] = []
        for fault in chance.sample(FAULTS, chance.choice((1, 2, 2, 3))):
            free = [one for one in targets[fault.of] if one not in {s.target for s in strikes}]
            if free:
                seconds = round(chance.uniform(1, fault.longest), 1)
                after = chance.choice((0.0, round(chance.uniform(1, LATEST), 1)))
                target = chance.choice(free)
                strikes.append(Strike(fault, target, seconds, after if strikes else 0.0))
        found.append(strikes)
    return found


def has_ended(strikes: Sequence[Strike], vm: str, host: str) -> bool:
    """Whether a guest on that host had to be started again, or moved. Pure."""
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


def moments(strikes: Sequence[Strike]) -> list[tuple[float, Strike, bool]]:
    """When each begins (True) and is repaired (False), by seconds from the wave's begin. Pure."""
    begins = [(one.after, one, True) for one in strikes]
    ends = [(one.after + one.seconds, one, False) for one in strikes]
    return sorted(begins + ends, key=lambda moment: moment[0])


async def _wave(stage: Stage, strikes: list[Strike], vms: tuple[str, ...], tally: Tally) -> None:
    before = {vm: one for vm in vms for one in stage.emulators(vm)}
    began = time.monotonic()
    for at, strike, begins in moments(strikes):
        # The length of a failure itself, or the time between two, which the plan has drawn.
        await asyncio.sleep(max(0.0, began + at - time.monotonic()))
        fault, target = strike.fault, strike.target
        if begins:
            lasts = f", {strike.seconds:g} s" if fault.repair else ""
            await stage.do(f"{target}: {fault.name}{lasts}", fault.begin(stage, target))
            tally.faults[fault.name] += 1
        elif fault.repair:
            await fault.repair(stage, target)
    async with deployment(stage):
        for host in stage.lab.hosts:  # one that was fenced may be off
            if host.power is HostPower.OFF:
                await stage.do(f"{host.name} boots", stage.lab.up_host(host))
        for host in stage.lab.hosts:
            if (await stage.hypervisor(host.name)).spec.maintenance == Maintenance.MANUAL:
                await stage.do(f"{host.name} goes back into service", resume(stage, host.name))
        await all_in_service(stage)
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
    stage.record.add(Mark.SEEN, "the whole lab has recovered", tally.whole[-1])


async def _all_write(stage: Stage, vms: tuple[str, ...]) -> None:
    before = {vm: stage.records(vm) for vm in vms}

    async def check() -> bool:
        return all(stage.records(vm) > before[vm] for vm in vms)

    await stage.until("every guest writes to its disk", check, within=_WRITES)
