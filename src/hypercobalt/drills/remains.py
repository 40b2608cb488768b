"""Drills in which what a dead host leaves is not what it seems to be."""

from __future__ import annotations

from msgspec.structs import replace

from hypercobalt.api.eviction import Eviction, EvictionReason, evicting, has_ended
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.outcomes import RECOVERY, is_back, recovered
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import definitions
from hypercobalt.lab.bmc.faults import BoardFault
from hypercobalt.lab.vms.virsh import virsh

_OPEN_GATES = "kvm.cloud.sap/open-gates"
_STAYS = 5.0
_STORED = 20.0
_BACK = 120.0


async def paused(stage: Stage) -> None:
    """A paused guest's memory is gone with its host; only its owner starts the guest again."""
    halted, runs = await stage.vms("kvm-1", 2)
    host = stage.host("kvm-1")
    await stage.do(f"virsh suspend {halted}, by its owner", virsh(host, "suspend", halted))

    async def is_stored() -> bool:
        found = (await definitions.stored(stage.kube, "kvm-1")).domains.values()
        return any(one.halted for one in found if one.name == halted)

    await stage.until("the API has that it is suspended", is_stored, within=_STORED)
    began = await stage.power_cut("kvm-1")
    await recovered(stage, "kvm-1", (runs,), began)
    await _accounted(stage, "kvm-1", 2)
    if not await _defined(stage, halted, but="kvm-1"):
        raise DrillError(f"no other host has {halted}")

    async def is_off() -> bool:
        return not stage.pids([halted])

    await stage.stays(f"{halted} is off", is_off, seconds=_STAYS)
    await stage.do("kvm-1 boots again", stage.lab.up_host(host))
    await stage.becomes("kvm-1", "back in service", is_back, within=_BACK)
    await stage.stays(f"{halted} is off", is_off, seconds=_STAYS)


async def fenced_wrongly_then_neighbour(stage: Stage) -> None:
    """The first host keeps the definitions of what it ended; it is not rebooted."""
    vms = await stage.vms("kvm-1", 4)
    first, pids = stage.host("kvm-1"), stage.pids(vms)
    stage.lab.boards.fault("kvm-1").write(BoardFault.LYING)
    await stage.do("the cable of kvm-1 is pulled; its BMC reports Off", first.wire.cut())

    async def evacuation_is_tried() -> bool:
        return any(one.status.instances for one in await stage.evictions())

    await stage.until("evacuation is tried", evacuation_is_tried, within=RECOVERY)
    await stage.do("the cable is put back", first.wire.restore())
    await stage.runs(vms, elsewhere="kvm-1", within=RECOVERY, not_pids=pids)
    machine = stage.host("kvm-2").machine
    lost = tuple(vm for vm in vms for one in stage.emulators(vm) if one.machine == machine)
    if not lost:
        raise DrillError("kvm-2 has taken over nothing")
    await stage.write(*vms)
    began = await stage.power_cut("kvm-2")
    await stage.do("a person opens the gates for it: two of three hosts are lost", _open(stage))
    await recovered(stage, "kvm-2", lost, began)
    await _accounted(stage, "kvm-2", len(lost))
    await stage.runs(vms, within=1)


async def _open(stage: Stage) -> None:
    def opened(found: Hypervisor) -> Hypervisor:
        notes = found.metadata.annotations | {_OPEN_GATES: found.status.bootID or ""}
        return replace(found, metadata=replace(found.metadata, annotations=notes))

    await stage.kube.modify(Hypervisor, "kvm-2", opened)


async def _accounted(stage: Stage, host: str, count: int) -> None:
    """Wait until the recovery of a host has ended well, and lists each of its instances."""

    async def ended() -> Eviction | None:
        ours = [one for one in await stage.evictions() if one.spec.hypervisor == host]
        return next((one for one in ours if has_ended(one.status)), None)

    found = await stage.until(f"the recovery of {host} has ended", ended, within=RECOVERY)
    end = evicting(found.status)
    if end is None or end.reason != EvictionReason.SUCCEEDED:
        raise DrillError(f"the recovery of {host} ended as {end}")
    if len(found.status.instances) != count:
        listed = [(one.id, one.phase, one.message) for one in found.status.instances]
        raise DrillError(f"{count} instances were on {host}, its recovery lists {listed}")


async def _defined(stage: Stage, vm: str, *, but: str) -> bool:
    others = [host for host in stage.lab.hosts if host.name != but]
    found = [(await virsh(host, "list", "--all", "--name")).split() for host in others]
    return any(vm in names for names in found)


DRILLS = (
    Drill(
        "paused",
        "The host of a suspended guest loses power: the guest is elsewhere, and stays off.",
        paused,
    ),
    Drill(
        "fenced-wrongly-then-neighbour",
        "A host is fenced by mistake and is back; the one that took its instances dies: all run.",
        fenced_wrongly_then_neighbour,
    ),
)
