"""Drills in which a host fails and its BMC fails, too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from hypercobalt.api.core import Node
from hypercobalt.api.eviction import EvictionInstance
from hypercobalt.api.fencing import ASSERTED_DEAD, FencingMethod, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.outcomes import RECOVERY, is_tried, recovered
from hypercobalt.drills.record import DrillError, Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.lab.bmc.boards import OUTLETS, PROTOCOL_LABEL, Feed
from hypercobalt.lab.bmc.faults import BoardFault
from hypercobalt.lab.host import Host, HostPower

_LONG = 20.0  # seconds in which nothing may be evacuated
_LOCKS = 240.0  # seconds in which the locks of disks count as evidence
_SHORT = 8.0  # seconds in which nothing may be evacuated, after an attempt that failed
_ENDED = 3.0
"""Seconds from the cable to the end of the guests: 1 until the next request of the agent, 2."""
_REFUSED = 3  # attempts after which a living host's instance would be given up


def _until_mended(
    fault: BoardFault, how: str, fail: Callable[[Host], Awaitable[None]], name: str = "kvm-1"
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
        bmc.write(BoardFault.NONE)
        stage.record.add(Mark.DONE, "the BMC works again")
        await recovered(stage, name, vms, began)

    return play


async def slow(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    stage.lab.boards.fault("kvm-1").write(BoardFault.SLOW)
    began = stage.record.now
    await stage.do("kvm-1 freezes; its BMC is slow", stage.host("kvm-1").freeze())
    await recovered(stage, "kvm-1", vms, began)


async def lying(stage: Stage) -> None:
    """A lie cannot be detected while the host is cut off; the locks of its disks must hold."""
    (vm,) = await stage.vms("kvm-1")
    stage.lab.boards.fault("kvm-1").write(BoardFault.LYING)
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
    # Its agent ends the guest, by the order that the lie has caused, and another host takes it; or
    # the host has reported before that, and the guest goes on.
    await stage.write(vm, within=RECOVERY)
    await stage.runs([vm], within=RECOVERY)


async def lying_then_dead(stage: Stage) -> None:
    """While the host lives, the locks of its disks refuse every evacuation.

    Once they have done so for longer than they could be left over, the proof is void, and the BMC
    is not believed any more: a person asserts the death that comes later.
    """
    vms = await stage.vms("kvm-1", 2)
    bmc, host = stage.lab.boards.fault("kvm-1"), stage.host("kvm-1")
    bmc.write(BoardFault.LYING)
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


def _two_feeds(*, until_off: bool) -> Callable[[Stage], Awaitable[None]]:
    """The host runs on at its second feed, cut off, and its guests write.

    The next attempt waits until nothing of the first one can act any more, which takes minutes.
    """

    async def play(stage: Stage) -> None:
        vms = await stage.vms("kvm-1", 2)
        host, pids = stage.host("kvm-1"), stage.pids(vms)
        outlets = {"metadata": {"labels": {PROTOCOL_LABEL: OUTLETS}}}
        await stage.do(
            "kvm-1 has two power feeds, with an outlet each; that of the second refuses orders",
            stage.kube.merge_patch(Node, "kvm-1", outlets),
        )
        second = stage.lab.boards.outlet_fault("kvm-1", Feed.B)
        second.write(BoardFault.CONFLICT)
        began = stage.record.now
        await stage.do("the cable of kvm-1 is pulled", host.wire.cut())
        await stage.becomes("kvm-1", "the feed that is on is named", _names_feed, within=RECOVERY)

        async def runs_at_one_feed() -> bool:
            untouched = host.power is HostPower.RUNNING and stage.pids(vms) == pids
            return untouched and not is_fenced(await stage.hypervisor("kvm-1"))

        await stage.stays("not proven dead, nothing is evacuated", runs_at_one_feed, seconds=_SHORT)
        await stage.write(*vms)
        if not until_off:
            return
        second.write(BoardFault.NONE)
        stage.record.add(Mark.DONE, "the second outlet obeys again")
        await recovered(stage, "kvm-1", vms, began)
        if host.power is not HostPower.OFF:
            raise DrillError(f"kvm-1 is {host.power} with both of its feeds off")

    return play


def _names_feed(hypervisor: Hypervisor) -> bool:
    """Whether an attempt has failed by the second feed alone."""
    found = hypervisor.status.fencing
    if found is None or found.phase != FencingPhase.FAILED:
        return False
    off = f"{Feed.A} "
    return any(
        off in text and "reports it off" in text and Feed.B in text for text in found.evidence
    )


def _diskless(*, until_void: bool) -> Callable[[Stage], Awaitable[None]]:
    """No lock keeps a guest that writes to no disk from running twice: it waits.

    With the first answer of the API the agent of its host ends every guest, and that is what proves
    them ended. Before that only the locks of the others show the lie, and make the proof void.
    """

    async def play(stage: Stage) -> None:
        vms = await stage.vms("kvm-1", 2)
        (lone,) = await stage.vms("kvm-1", program="idle", readonly=True)
        every = (*vms, lone)
        host, copies = stage.host("kvm-1"), stage.pids(every)
        stage.lab.boards.fault("kvm-1").write(BoardFault.LYING)
        await stage.do("the cable of kvm-1 is pulled; its BMC reports Off", host.wire.cut())

        async def waits() -> bool:
            found = await _listed(stage, lone)
            return any("writes to no disk" in (one.message or "") for one in found)

        await stage.until(
            f"{lone} waits for its host; its Eviction shows why", waits, within=RECOVERY
        )

        async def are_refused() -> bool:
            found = [await _listed(stage, vm) for vm in vms]
            return all(any((one.attempts or 0) > 1 for one in each) for each in found)

        await stage.until("locks refuse the others", are_refused, within=RECOVERY)
        if until_void:
            await stage.becomes(
                "kvm-1", "not proven dead any more", _is_contradicted, within=_LOCKS
            )
            await stage.explains("kvm-1", "start none of its instances elsewhere before")

        async def only_the_old_copies_run() -> bool:
            booted = [len(stage.ledger(vm).boots) for vm in vms]
            return stage.pids([lone]) <= copies and max(booted) == 1

        await stage.stays("only the old copies run", only_the_old_copies_run, seconds=_SHORT)
        began = stage.record.now
        await stage.do("the cable is put back", host.wire.restore())

        async def have_ended() -> bool:
            return not stage.pids(every) & copies

        await stage.until("every guest of kvm-1 has ended", have_ended, within=_ENDED)
        stage.record.measure("cable_to_ended", began)
        await stage.becomes("kvm-1", "ended by its agent", _is_agents_word, within=RECOVERY)
        await stage.runs(every, elsewhere="kvm-1", within=RECOVERY, not_pids=copies)
        await stage.write(*vms)

    return play


async def _listed(stage: Stage, vm: str) -> list[EvictionInstance]:
    id_ = str(stage.fleet.id_of(vm))
    found = (each for one in await stage.evictions() for each in one.status.instances)
    return [each for each in found if each.id == id_]


def _is_agents_word(hypervisor: Hypervisor) -> bool:
    found = hypervisor.status.fencing
    return found is not None and found.method == FencingMethod.AGENT and is_fenced(hypervisor)


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
        _until_mended(BoardFault.DEAD_WITH_POWER, "loses power", Host.crash),
    ),
    Drill(
        "bmc-denied",
        "The BMC of a frozen host refuses the password: nothing is evacuated.",
        _until_mended(BoardFault.DENIED, "freezes", Host.freeze, "kvm-2"),
    ),
    Drill(
        "bmc-conflict",
        "The BMC of a frozen host refuses orders: nothing is evacuated.",
        _until_mended(BoardFault.CONFLICT, "freezes", Host.freeze),
        in_ci=False,
    ),
    Drill("bmc-lying", "A BMC reports Off for a host that runs: the disks' locks hold.", lying),
    Drill(
        "bmc-lying-then-dead",
        "Locks show that a BMC has lied; its host dies later, as a person asserts: evacuated then.",
        lying_then_dead,
        in_ci=False,
    ),
    Drill(
        "two-feeds",
        "A host loses its network, and one of its two power feeds stays on: not proven dead.",
        _two_feeds(until_off=False),
    ),
    Drill(
        "two-feeds-long",
        "The same, until both feeds are off: fenced, then evacuated.",
        _two_feeds(until_off=True),
        in_ci=False,
    ),
    Drill(
        "diskless-lying",
        "A BMC lies about a host with a guest that writes to no disk: it waits, and runs once.",
        _diskless(until_void=False),
    ),
    Drill(
        "diskless-lying-long",
        "The same, until the locks of the host's other guests show the lie.",
        _diskless(until_void=True),
        in_ci=False,
    ),
)
