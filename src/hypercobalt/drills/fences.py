"""Drills in which a host fails and its BMC fails, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hypercobalt.api.fencing import ASSERTED_DEAD
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.outcomes import RECOVERY, is_tried, recovered
from hypercobalt.drills.record import DrillError, Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.lab.bmc.faults import Fault
from hypercobalt.lab.host import Host

_LONG = 20.0  # seconds in which nothing may be evacuated
_LOCKS = 240.0  # seconds in which the locks of disks count as evidence
_REFUSED = 3  # attempts after which a living host's instance would be given up


def _until_mended(
    fault: Fault, how: str, fail: Callable[[Host], Awaitable[None]], name: str = "kvm-1"
) -> Callable[[Stage], Awaitable[None]]:
    """A host fails and cannot be fenced: nothing is evacuated until its BMC works again.

    The operator speaks Redfish to the BMC of kvm-1, and IPMI to that of kvm-2.
    """

    async def play(stage: Stage) -> None:
        vms = await stage.vms(name, 2)
        bmc = stage.lab.boards.fault(name)
        bmc.write(fault)
        began = stage.record.now
        await stage.do(f"{name} {how}, and its BMC is: {fault}", fail(stage.host(name)))

        await stage.becomes(name, "fencing is tried", is_tried, within=RECOVERY)

        async def is_held() -> bool:
            running = (stage.host_of(e) for vm in vms for e in stage.emulators(vm))
            return all(host == name for host in running)

        await stage.stays("nothing is evacuated", is_held, seconds=_LONG)
        bmc.write(Fault.NONE)
        stage.record.add(Mark.DONE, "the BMC works again")
        await recovered(stage, name, vms, began)

    return play


async def slow(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    stage.lab.boards.fault("kvm-1").write(Fault.SLOW)
    began = stage.record.now
    await stage.do("kvm-1 freezes; its BMC is slow", stage.host("kvm-1").freeze())
    await recovered(stage, "kvm-1", vms, began)


async def lying(stage: Stage) -> None:
    """A lie cannot be detected while the host is cut off; the locks of its disks must hold."""
    (vm,) = await stage.vms("kvm-1")
    stage.lab.boards.fault("kvm-1").write(Fault.LYING)
    await stage.do(
        "the cable of kvm-1 is pulled; its BMC reports Off", stage.host("kvm-1").wire.cut()
    )

    async def evacuation_is_tried() -> bool:
        return any(one.status.instances for one in await stage.evictions())

    await stage.until("evacuation is tried", evacuation_is_tried, within=RECOVERY)

    async def is_the_only_one() -> bool:
        found = stage.ledger(vm)
        return len(found.boots) == 1 and not found.faults

    await stage.stays(f"only one {vm} has ever written", is_the_only_one, seconds=_LONG)
    await stage.do("the cable is put back", stage.host("kvm-1").wire.restore())
    await stage.runs([vm], within=RECOVERY)
    await stage.write(vm)


async def lying_then_dead(stage: Stage) -> None:
    """While the host lives, the locks of its disks refuse every evacuation.

    Once they have done so for longer than they could be left over, the proof is void, and the BMC
    is not believed any more: a person asserts the death that comes later.
    """
    vms = await stage.vms("kvm-1", 2)
    bmc, host = stage.lab.boards.fault("kvm-1"), stage.host("kvm-1")
    bmc.write(Fault.LYING)
    await stage.do("the cable of kvm-1 is pulled; its BMC reports Off", host.wire.cut())

    async def is_refused_often() -> bool:
        tried = [
            each.attempts or 0 for one in await stage.evictions() for each in one.status.instances
        ]
        return len(tried) == len(vms) and min(tried) > _REFUSED

    await stage.until("evacuation is refused again and again", is_refused_often, within=RECOVERY)
    if any(len(stage.ledger(vm).boots) > 1 for vm in vms):
        raise DrillError("a guest was started although its host lives")
    await stage.becomes("kvm-1", "not proven dead any more", _is_contradicted, within=_LOCKS)
    began = await stage.power_cut("kvm-1")
    stored = await stage.hypervisor("kvm-1")
    assertion = {"metadata": {"annotations": {ASSERTED_DEAD: stored.status.bootID}}}
    await stage.do(
        "a person has looked, and asserts that it is dead",
        stage.kube.merge_patch(Hypervisor, "kvm-1", assertion),
    )
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY)
    stage.record.measure("death_to_running", began)
    await stage.write(*vms)


def _is_contradicted(hypervisor: Hypervisor) -> bool:
    found = hypervisor.status.fencing
    return found is not None and found.contradictedBy is not None and not is_fenced(hypervisor)


DRILLS = (
    Drill(
        "bmc-slow",
        "The BMC of a frozen host takes seconds: the operator waits for it.",
        slow,
        in_ci=False,
    ),
    Drill(
        "bmc-dead-with-power",
        "Power is lost with the BMC: nothing is evacuated without a proof.",
        _until_mended(Fault.DEAD_WITH_POWER, "loses power", Host.crash),
    ),
    Drill(
        "bmc-denied",
        "The BMC of a frozen host refuses the password: nothing is evacuated.",
        _until_mended(Fault.DENIED, "freezes", Host.freeze, "kvm-2"),
    ),
    Drill(
        "bmc-conflict",
        "The BMC of a frozen host refuses orders: nothing is evacuated.",
        _until_mended(Fault.CONFLICT, "freezes", Host.freeze),
        in_ci=False,
    ),
    Drill("bmc-lying", "A BMC reports Off for a host that runs: the disks' locks hold.", lying),
    Drill(
        "bmc-lying-then-dead",
        "Locks show that a BMC has lied; its host dies later, as a person asserts: evacuated then.",
        lying_then_dead,
        in_ci=False,
    ),
)
