"""Drills in which a host can only be cut off from its storage: its BMC answers nothing."""

from __future__ import annotations

from collections.abc import Sequence

from hypercobalt.api.core import Node
from hypercobalt.api.hypervisor import Hypervisor, is_fenced
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.outcomes import RECOVERY, is_back, recovered
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.drills.storage import fail_on
from hypercobalt.lab import shared_mount
from hypercobalt.lab.bmc.boards import STORAGE_LABEL
from hypercobalt.lab.bmc.faults import BoardFault as BmcFault
from hypercobalt.lab.host import Host
from hypercobalt.lab.storage.faults import StorageFault

_BACK = 180.0
_THAWED = 30.0  # seconds in which the old copies could write


async def power_lost(stage: Stage) -> None:
    """Nothing of the host answers, nor does what switches its power: its storage is left."""
    vms, host = await _with_storage_fence(stage), stage.host("kvm-1")
    fail_on(stage, host, StorageFault.HANG)
    began = stage.record.now
    await stage.do("power cut of kvm-1, of its BMC and of its storage", host.crash())
    await recovered(stage, "kvm-1", vms, began)
    await _is_cut_off(stage, host)
    await _comes_back(stage, host, vms)


async def thaws(stage: Stage) -> None:
    """The old copies live on: they must not write, before the thaw and after it.

    They hold the locks of their disks, so no other host starts them before they have ended. Their
    agent ends them as soon as it reads that its boot was fenced.
    """
    vms, host = await _with_storage_fence(stage), stage.host("kvm-1")
    await stage.do("kvm-1 freezes, its guests too", host.freeze())
    await stage.becomes("kvm-1", "cut off from its storage", is_fenced, within=RECOVERY)
    await _is_cut_off(stage, host)
    before = {vm: stage.records(vm) for vm in vms}

    async def evacuation_is_tried() -> bool:
        return any(one.status.instances for one in await stage.evictions())

    await stage.until("evacuation is tried", evacuation_is_tried, within=RECOVERY)
    copies = stage.pids(vms)
    began = stage.record.now
    await stage.do("kvm-1 thaws", host.thaw())

    async def no_old_copy_writes() -> bool:
        old = [vm for vm in vms if stage.pids([vm]) & copies]
        return all(stage.records(vm) == before[vm] for vm in old)

    await stage.stays("no old copy writes", no_old_copy_writes, seconds=_THAWED)
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY, not_pids=copies)
    stage.record.measure("thaw_to_running", began)
    await stage.write(*vms)
    if again := [vm for vm in vms if len(stage.ledger(vm).boots) != 2]:  # noqa: PLR2004 - here, elsewhere
        raise DrillError(f"not started once: {', '.join(again)}")
    await _is_cut_off(stage, host)
    await stage.do("kvm-1 is rebooted", host.crash())
    await _comes_back(stage, host, vms)


async def _with_storage_fence(stage: Stage) -> Sequence[str]:
    """Two guests on kvm-1, which has a storage device, and a BMC that answers nothing."""
    vms = await stage.vms("kvm-1", 2)
    await stage.write(*vms)
    stage.lab.boards.fault("kvm-1").write(BmcFault.DEAD)
    label = {"metadata": {"labels": {STORAGE_LABEL: "true"}}}
    await stage.do(
        "kvm-1 has a device that cuts it off from its storage; its BMC answers nothing",
        stage.kube.merge_patch(Node, "kvm-1", label),
    )
    return vms


async def _is_cut_off(stage: Stage, host: Host) -> None:
    found = (await stage.hypervisor(host.name)).status.fencing
    if found is None or found.storageDevice is None:
        raise DrillError(f"{host.name} is not recorded as cut off from its storage")
    if (fault := _fault(stage, host)) is not StorageFault.DENY:
        raise DrillError(f"the storage of {host.name} is {fault}")


def _fault(stage: Stage, host: Host) -> StorageFault | None:
    return shared_mount.faults(stage.lab.layout).read().get(host.machine)


async def _comes_back(stage: Stage, host: Host, vms: Sequence[str]) -> None:
    await stage.do("kvm-1 boots", stage.lab.up_host(host))

    def has_its_storage(hypervisor: Hypervisor) -> bool:
        found = hypervisor.status.fencing
        return found is not None and found.storageDevice is None

    await stage.becomes("kvm-1", "has its storage back", has_its_storage, within=_BACK)
    if (fault := _fault(stage, host)) is not None:
        raise DrillError(f"the storage of kvm-1 is {fault} still")
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)
    await stage.runs(vms, elsewhere="kvm-1", within=1)


DRILLS = (
    Drill(
        "partition-power-storage-fence",
        "Power, network and BMC are lost, the storage device answers: cut off, evacuated, back.",
        power_lost,
        2,
        in_ci=False,
    ),
    Drill(
        "storage-fence-thaw",
        "A frozen host is cut off from its storage, and thaws: its guests write no more.",
        thaws,
        2,
        in_ci=False,
    ),
)
