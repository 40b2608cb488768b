"""Parts of an existing lab that `up` has to start: dead ones, and those that were never made."""

from __future__ import annotations

from hypercobalt.lab.host import HostPower
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.machine.preflight import Demand
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import Kind, VMRequest
from hypercobalt.lab.vms.virsh import defined


async def demand(lab: Lab) -> Demand:
    """Hosts that are off, VMs that are off or on such a host, and VMs that were never made."""
    off = [host for host in lab.hosts if host.power is HostPower.OFF]
    asleep = [vm for vm in (await Fleet(lab).inventory()).vms if vm.is_asleep]
    guests = len(asleep) + sum(len(defined(host)) for host in off) + unmade(lab)
    # What still runs of an OpenStack is not counted: it is there as a whole, or not at all.
    new_cloud = bool(lab.state.openstack) and not lab.control.is_running
    return Demand(
        len(off), guests, base=not lab.control.is_running, is_new=False, openstack=new_cloud
    )


def unmade(lab: Lab) -> int:
    """How many VMs the first `up` was to make and has not."""
    there = {name for host in lab.hosts for name in defined(host)}
    return max(0, lab.state.vms - len(there))


async def complete(lab: Lab, fleet: Fleet, kind: Kind) -> None:
    """Make the VMs that the first `up` was to make, as far as they are not there.

    Raises:
        LabError: one cannot be made; the next `up` tries again.
    """
    await fleet.add(*[VMRequest(kind=kind)] * unmade(lab))
    lab.has_its_vms()
