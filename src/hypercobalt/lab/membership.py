"""Hosts that come to a lab, or leave it, after its first `up`.

A lab with an OpenStack keeps the hosts that it began with: Nova knows them.
"""

from __future__ import annotations

from hypercobalt.lab import ovn, shared_mount
from hypercobalt.lab.errors import LabRequestError
from hypercobalt.lab.host import Host, HostPower
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.setup import Setup


async def add_host(lab: Lab, name: str | None = None, *, setup: Setup | None = None) -> Host:
    """Boot one host more, as the others: with OVN and the API where the lab has them.

    Args:
        lab: that it joins.
        name: of the host; the next free `kvm-N` when not given.
        setup: what it joins; what runs when not given.

    Raises:
        HypercobaltError: the lab has an OpenStack, the name is taken, or the host does not come up.
    """
    if lab.state.openstack:
        raise LabRequestError(
            f"the lab in {lab.layout.data} has an OpenStack: a host added later would have no "
            "nova-compute; make another lab with `cobalt lab up --openstack --hosts N`"
        )
    name = name or _free_name({host.name for host in lab.state.hosts})
    lab.record(lab.state.with_host(name))
    host = lab.host(name)
    await lab.up_host(host, setup)
    _write_addresses(lab)
    return host


async def remove_host(lab: Lab, name: str) -> None:
    """Cut a host's power and throw it away, with its objects.

    Raises:
        HypercobaltError: the lab has an OpenStack, there is no such host, or something of it is in
            use.
    """
    if lab.state.openstack:
        raise LabRequestError(
            f"the lab in {lab.layout.data} has an OpenStack: Nova would keep {name} with its "
            f"servers; `cobalt lab host crash {name}` cuts its power"
        )
    host, has_ovn = lab.host(name), lab.running.ovn
    if has_ovn:
        lab.central.expect(ovn.Part.SB)
    await lab.boards.remove(name)
    await host.remove()
    await host.wire.data.remove()
    shared_mount.faults(lab.layout).write(host.machine, None)
    if has_ovn:
        await lab.central.forget(name)
    if lab.control.is_running:
        await lab.control.unregister(name)
    lab.record(lab.state.without_host(name))
    _write_addresses(lab)


def _free_name(taken: set[str]) -> str:
    number = len(taken) + 1
    while f"kvm-{number}" in taken:
        number += 1
    return f"kvm-{number}"


def _write_addresses(lab: Lab) -> None:
    for host in lab.hosts:
        if host.power is not HostPower.OFF:
            host.disk.write_hosts(lab.addresses)
