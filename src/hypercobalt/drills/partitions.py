"""Drills in which hosts are cut off: from the API, from each other, from their storage.

A cable that is pulled takes the API and the peers from a host; its storage is on a second one. What
is done then depends on what still answers, and on whether the host can be fenced.
"""

from __future__ import annotations

from hypercobalt.api import fencing
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.outcomes import RECOVERY, is_back, is_tried, recovered
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.drills.storage import fail_on
from hypercobalt.lab.bmc.faults import BoardFault as BmcFault
from hypercobalt.lab.host import HostPower
from hypercobalt.lab.storage.faults import StorageFault

_AWAY = 50.0
"""Seconds: longer than a Lease (16), calls to libvirt (20), the wait after it (5) and peers (5)."""
_BACK = 120.0
_HELD = 15.0


async def all_cut(stage: Stage) -> None:
    """When all hosts are cut off, the control plane is away: no host is recovered."""
    names = [host.name for host in stage.lab.hosts]
    vms = [vm for name in names for vm in await stage.vms(name)]
    pids = stage.pids(vms)
    for name in names:
        await stage.do(f"the cable of {name} is pulled", stage.host(name).wire.cut())

    async def is_untouched() -> bool:
        found = [await stage.hypervisor(name) for name in names]
        return stage.pids(vms) == pids and not any(one.status.fencing for one in found)

    before = {vm: stage.records(vm) for vm in vms}
    await stage.stays("no host is fenced, no guest is touched", is_untouched, seconds=_AWAY)
    if idle := [vm for vm in vms if stage.records(vm) == before[vm]]:
        raise DrillError(f"wrote nothing while its host was cut off: {', '.join(idle)}")
    await stage.explains(names[0], "NotEveryone closed")
    for name in names:
        await stage.do(f"the cable of {name} is put back", stage.host(name).wire.restore())
    for name in names:
        await stage.becomes(name, "back in service", is_back, within=_BACK)
    if not await is_untouched() or await stage.evictions():
        raise DrillError("something was done to guests that had never failed")


async def management_cut(stage: Stage) -> None:
    """Kubelet and node agent are silent; libvirt answers, so the host lives."""
    vms = await stage.vms("kvm-1", 2)
    host, pids = stage.host("kvm-1"), stage.pids(vms)
    rule = ("OUTPUT", "-p", "tcp", "--dport", str(stage.lab.state.api_port), "-j", "DROP")
    began = stage.record.now
    await stage.do(
        "kvm-1 does not reach the API server any more", host.run("iptables", "-I", *rule)
    )
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY)
    stage.record.measure("failure_to_moved", began)
    if host.power is not HostPower.RUNNING or (await stage.hypervisor("kvm-1")).status.fencing:
        raise DrillError("a host whose libvirt answers was fenced")
    if pids & stage.pids(vms):
        raise DrillError("a guest was not moved")
    if restarted := [vm for vm in vms if len(stage.ledger(vm).boots) > 1]:
        raise DrillError(f"restarted instead of moved live: {', '.join(restarted)}")
    await stage.do("kvm-1 reaches the API server again", host.run("iptables", "-D", *rule))
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)


async def isolated(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    host = stage.host("kvm-1")
    began = stage.record.now
    fail_on(stage, host, StorageFault.CUT)
    await stage.do("kvm-1 loses its network and its storage; it has power", host.wire.cut())
    await recovered(stage, "kvm-1", vms, began)
    if host.power is not HostPower.OFF:
        raise DrillError(f"kvm-1 is {host.power} after it was fenced")
    fail_on(stage, host, None)
    await stage.do("kvm-1 boots, and has both again", stage.lab.up_host(host))
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)
    await stage.runs(vms, elsewhere="kvm-1", within=1)


async def asserted(stage: Stage) -> None:
    """Silence, lost storage and a dead BMC look like lost power; only a person can see that."""
    vms = await stage.vms("kvm-1", 2)
    host, bmc = stage.host("kvm-1"), stage.lab.boards.fault("kvm-1")
    bmc.write(BmcFault.DEAD)
    fail_on(stage, host, StorageFault.HANG)
    began = stage.record.now
    await stage.do("power cut of kvm-1, of its BMC and of its storage", host.crash())

    await stage.becomes("kvm-1", "fencing is tried", is_tried, within=RECOVERY)

    async def is_held() -> bool:
        return not stage.pids(vms)

    await stage.stays("nothing is evacuated", is_held, seconds=_HELD)
    stored = await stage.hypervisor("kvm-1")
    assertion = {"metadata": {"annotations": {fencing.ASSERTED_DEAD: stored.status.bootID}}}
    await stage.do(
        "a person has looked, and asserts that it is dead",
        stage.kube.merge_patch(Hypervisor, "kvm-1", assertion),
    )
    await recovered(stage, "kvm-1", vms, began)
    if not is_fenced(await stage.hypervisor("kvm-1")):
        raise DrillError("kvm-1 was evacuated without a proof")


async def storage_gone(stage: Stage) -> None:
    """Node and agent are well: a host whose storage is gone is no dead host."""
    vms = await stage.vms("kvm-1", 2)
    host, pids = stage.host("kvm-1"), stage.pids(vms)
    for fault in (StorageFault.DENY, StorageFault.HANG, StorageFault.CUT):
        fail_on(stage, host, fault)

        async def is_left_alone() -> bool:
            fencing = (await stage.hypervisor("kvm-1")).status.fencing
            return stage.pids(vms) == pids and not fencing

        await stage.stays(f"storage of kvm-1: {fault}; its guests wait", is_left_alone, seconds=10)
        fail_on(stage, host, None)
        await stage.write(*vms, within=90)
    if stage.pids(vms) != pids or await stage.evictions():
        raise DrillError("a guest was restarted or moved")


DRILLS = (
    Drill("partition-all", "Every host is cut off: nothing is fenced or touched.", all_cut, 2),
    Drill(
        "partition-management",
        "A host loses the API alone: its guests move live, it is not fenced.",
        management_cut,
        2,
    ),
    Drill(
        "partition-isolated",
        "A host loses network and storage, not power: fenced, evacuated, and taken back.",
        isolated,
        2,
    ),
    Drill(
        "partition-power",
        "Network, storage and BMC are lost with the power: the operator waits for the assertion "
        "of a person.",
        asserted,
        2,
        in_ci=False,
    ),
    Drill(
        "storage-gone",
        "One host's storage refuses, hangs, is cut: its guests wait, and continue.",
        storage_gone,
        2,
        in_ci=False,
    ),
)
