"""What a lab of `cobalt lab up` consists of on the machine, and how each process is started.

Hosts are not among it: a host that is off was crashed, shut down or fenced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

from hypercobalt.lab import bond, control, operator, shared_mount
from hypercobalt.lab.bmc import boards
from hypercobalt.lab.host import Host, HostPower
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.network import rack
from hypercobalt.lab.openstack import apis, infra
from hypercobalt.lab.openstack.place import OpenStackPlace
from hypercobalt.lab.openstack.site import OpenStack
from hypercobalt.lab.ovn import Part
from hypercobalt.lab.pods import actors

Start = Callable[[], Awaitable[None]]

NEEDS: Final = {
    operator.ROLE: control.ROLE,
    control.TOKENS: control.ROLE,
    actors.CONTROLLER: control.ROLE,
    actors.SCHEDULER: control.ROLE,
    rack.SWITCH: rack.DATABASE,
}
"""The role that must run before another one is started."""
_OPENSTACK: Final[Mapping[str, Callable[[OpenStackPlace], Awaitable[None]]]] = {
    "mariadb": infra.start_database,
    "rabbitmq": infra.start_broker,
    "keystone-api": apis.start_keystone,
    "placement-api": apis.start_placement,
    "glance-api": apis.start_glance,
    "nova-conductor": apis.start_nova,
    "nova-scheduler": apis.start_nova,
    "nova-api": apis.start_nova,
    "neutron-periodic-workers": apis.start_neutron,
    "neutron-ovn-maintenance-worker": apis.start_neutron,
    "neutron-api": apis.start_neutron,
}


def starters(lab: Lab) -> dict[str, Start]:
    """How each process is started, by role; a role comes after those that it needs."""
    found: dict[str, Start] = {
        shared_mount.ROLE: partial(_share, lab),
        rack.DATABASE: partial(_rack, lab),
        rack.SWITCH: partial(_rack, lab),
    }
    for part in Part:
        found[part.role] = partial(lab.central.repair, (part,))
    if lab.state.openstack:
        place = OpenStack(lab).place
        for name, start in _OPENSTACK.items():
            found[f"openstack/{name}"] = partial(start, place)
    found[control.ROLE] = lab.control.start
    found[control.TOKENS] = lab.control.start
    found[operator.ROLE] = lab.operator.start
    if lab.state.virt:
        found[actors.CONTROLLER] = found[actors.SCHEDULER] = lab.actors.start
    for host in lab.state.hosts:
        found[boards.role(host.name)] = partial(lab.boards.start, host.name)
    for one in lab.hosts:
        if one.wire.badness:
            found[one.wire.role] = one.wire.relay_again
    return found


async def _share(lab: Lab) -> None:
    await lab.share()
    await _on_hosts(lab, lambda host: shared_mount.renew(host, lab.layout))


async def _rack(lab: Lab) -> None:
    await lab.rack.start()
    await _on_hosts(lab, bond.join)  # its cables ended with its namespace


async def _on_hosts(lab: Lab, act: Callable[[Host], Awaitable[None]]) -> None:
    running = [host for host in lab.hosts if host.power is HostPower.RUNNING]
    await asyncio.gather(*(act(host) for host in running))
