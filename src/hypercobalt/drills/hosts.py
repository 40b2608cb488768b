"""Drills in which a host fails, whole or in part, and its BMC works."""

from __future__ import annotations

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.outcomes import (
    RECOVERY,
    accepts,
    is_back,
    is_blocked_by_gates,
    is_tried,
    recovered,
)
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage, is_ready
from hypercobalt.lab import kubelet
from hypercobalt.lab.heartbeat import Trouble
from hypercobalt.lab.host import HostPower

_BACK = 120.0
_LONG = 60.0
"""Seconds: longer than silence of the Lease and all waits after it."""


async def crash(stage: Stage) -> None:
    """Cut the power of kvm-2, which has a BMC with IPMI; the BMC of kvm-1 speaks Redfish."""
    vms = await stage.vms("kvm-2", 2)
    host = stage.host("kvm-2")
    began = await stage.power_cut("kvm-2")
    await recovered(stage, "kvm-2", vms, began)
    await stage.do("kvm-2 boots again", stage.lab.up_host(host))
    await stage.becomes("kvm-2", "back in service", is_back, within=_BACK)
    await stage.runs(vms, elsewhere="kvm-2", within=1)


async def reboots(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    pids = stage.pids(vms)
    host = stage.host("kvm-1")
    await stage.power_cut("kvm-1")
    began = stage.record.now
    await stage.do("kvm-1 boots again, before its Lease has run out", stage.lab.up_host(host))
    await stage.runs(vms, within=RECOVERY, not_pids=pids)
    stage.record.measure("boot_to_running", began)
    await stage.write(*vms)


async def frozen(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    host = stage.host("kvm-1")
    began = stage.record.now
    await stage.do("kvm-1 freezes, its guests too", host.freeze())
    await recovered(stage, "kvm-1", vms, began)
    if host.power is not HostPower.OFF:
        raise DrillError(f"kvm-1 is {host.power} after it was fenced")


async def cut_off(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    host = stage.host("kvm-1")
    began = stage.record.now
    await stage.do("the cable of kvm-1 is pulled; its guests keep writing", host.wire.cut())
    await recovered(stage, "kvm-1", vms, began)


async def kubelet_stops(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    host = stage.host("kvm-1")
    pids = stage.pids(vms)
    await stage.do(
        "only the kubelet of kvm-1 stops", host.run("systemctl", "stop", kubelet.SERVICE)
    )

    async def is_lost() -> bool:
        return not is_ready(await stage.hypervisor("kvm-1"))

    await stage.until("kvm-1 is not ready", is_lost, within=60)
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY)
    if host.power is not HostPower.RUNNING:
        raise DrillError(f"kvm-1 is {host.power}: a host that lives was fenced")
    if pids & stage.pids(vms):
        raise DrillError("a guest was not moved")
    await stage.do("the kubelet starts again", host.run("systemctl", "start", kubelet.SERVICE))
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)


async def not_ready(stage: Stage) -> None:
    vms = await stage.vms("kvm-1")
    host, pids = stage.host("kvm-1"), stage.pids(vms)
    began = stage.record.now
    await stage.do("the kubelet reports Ready=False", kubelet.report(host, [Trouble.NOT_READY]))
    await stage.becomes("kvm-1", "no new instances", lambda one: not accepts(one), within=30)
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY, not_pids=pids)
    stage.record.measure("failure_to_running", began)
    await stage.write(*vms)
    if host.power is not HostPower.RUNNING:
        raise DrillError(f"kvm-1 is {host.power}: a host that lives was fenced")
    if (await stage.hypervisor("kvm-1")).status.fencing is not None:
        raise DrillError("kvm-1 has a record of fencing, though its kubelet reports")
    await stage.do("the kubelet reports no trouble", kubelet.report(host, []))
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)


async def pressure(stage: Stage) -> None:
    vms = await stage.vms("kvm-1")
    host, pids = stage.host("kvm-1"), stage.pids(vms)
    for trouble in (Trouble.DISK, Trouble.MEMORY):
        await stage.do(f"the kubelet reports {trouble}", kubelet.report(host, [trouble]))
        await stage.becomes("kvm-1", "no new instances", lambda h: not accepts(h), within=30)

        async def is_left_alone() -> bool:
            return stage.pids(vms) == pids and not await stage.evictions()

        await stage.stays("its guest runs on, without an Eviction", is_left_alone, seconds=10)
        await stage.do("the kubelet reports no trouble", kubelet.report(host, []))
        await stage.becomes("kvm-1", "takes instances again", accepts, within=30)


async def many(stage: Stage) -> None:
    vms = (*await stage.vms("kvm-1"), *await stage.vms("kvm-2"))
    for name in ("kvm-1", "kvm-2"):
        await stage.power_cut(name)

    async def is_blocked() -> bool:
        found = [await stage.hypervisor(name) for name in ("kvm-1", "kvm-2")]
        return all(is_blocked_by_gates(one) for one in found)

    await stage.until("recovery of both is blocked", is_blocked, within=RECOVERY)

    async def nothing_begins() -> bool:
        found = [await stage.hypervisor(name) for name in ("kvm-1", "kvm-2")]
        return not any(map(is_tried, found)) and not stage.pids(vms)

    await stage.stays("neither is fenced, nothing is started", nothing_begins, seconds=20)


async def lost_slowly(stage: Stage) -> None:
    """Hosts that were recovered count on until they are back: a fleet is not emptied bit by bit."""
    vms = (*await stage.vms("kvm-1"), *await stage.vms("kvm-2"))
    first, second = stage.host("kvm-1"), stage.host("kvm-2")
    began = await stage.power_cut("kvm-1")
    await recovered(stage, "kvm-1", (vms[0],), began)
    lost = tuple(vm for vm in vms for one in stage.emulators(vm) if one.machine == second.machine)
    await stage.do("then, power cut of kvm-2", second.crash())

    async def is_blocked() -> bool:
        return is_blocked_by_gates(await stage.hypervisor("kvm-2"))

    await stage.until("recovery of kvm-2 is blocked", is_blocked, within=RECOVERY)
    await stage.explains("kvm-2", "MaxUnhealthy closed: 2 of 5 hosts are unhealthy, 1 are allowed")

    async def nothing_begins() -> bool:
        untried = not is_tried(await stage.hypervisor("kvm-2"))
        return untried and not stage.pids(lost)

    await stage.stays("kvm-2 is not fenced, nothing is started", nothing_begins, seconds=_LONG)
    began = stage.record.now
    await stage.do("kvm-1 boots again", stage.lab.up_host(first))
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)
    await recovered(stage, "kvm-2", lost, began)


async def target_dies(stage: Stage) -> None:
    """The first host is not taken back while the second, silent one may run its instances."""
    vms = await stage.vms("kvm-1", 4)
    first, second = stage.host("kvm-1"), stage.host("kvm-2")
    began = await stage.power_cut("kvm-1")
    await recovered(stage, "kvm-1", vms, began)
    lost = tuple(vm for vm in vms for one in stage.emulators(vm) if one.machine == second.machine)
    await stage.do(f"power cut of kvm-2, which has {', '.join(lost)}", second.crash())
    await stage.do("kvm-1 boots again", stage.lab.up_host(first))
    began = stage.record.now
    await recovered(stage, "kvm-2", lost, began)
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)


async def node_deleted(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    began = await stage.power_cut("kvm-1")
    await stage.becomes("kvm-1", "fenced, with a proof", is_fenced, within=RECOVERY)
    await stage.do("its Node is deleted", stage.kube.delete(Node, "kvm-1"))
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY)
    stage.record.measure("failure_to_running", began)

    async def is_gone() -> bool:
        return await stage.kube.get(Hypervisor, "kvm-1") is None

    await stage.until("its Hypervisor is gone", is_gone, within=_BACK)


DRILLS = (
    Drill("host-crash", "A host loses power: fenced, evacuated, and taken back.", crash),
    Drill("host-reboots", "A host reboots within the timeout: its instances run again.", reboots),
    Drill("host-frozen", "A host freezes: it is fenced before anything is evacuated.", frozen),
    Drill(
        "host-cut", "A host loses its network and keeps writing: fenced, then evacuated.", cut_off
    ),
    Drill("kubelet-stops", "Only a kubelet stops: live migration, no fencing.", kubelet_stops),
    Drill(
        "node-not-ready",
        "A kubelet reports Ready=False: live migration, no fencing, and the host returns.",
        not_ready,
        2,
        in_ci=False,
    ),
    Drill("node-pressure", "A kubelet reports pressure: no new instances there.", pressure, 1),
    Drill(
        "fleet-slowly",
        "40 % of a fleet are lost one after the other: the second host waits for the first.",
        lost_slowly,
        5,
        in_ci=False,
    ),
    Drill("many-hosts", "Two of four hosts lose power: the gates hold, nothing begins.", many, 4),
    Drill(
        "host-then-target",
        "A host dies, then one that took its instances: the first is back, the second evacuated.",
        target_dies,
        in_ci=False,
    ),
    Drill(
        "node-deleted",
        "The Node of a dead host is deleted: its instances are evacuated first.",
        node_deleted,
        in_ci=False,
    ),
)
