"""From libvirt's answers to the fields of a Hypervisor's status. Pure.

Attribution to the host's NUMA cells:

- memory that `numatune` binds goes to the host cells that its nodeset names, evenly when there are
  several; bytes that do not divide go to the first ones, so that the sum stays exact;
- a pinned vCPU goes to the cell that holds every CPU it may run on; one that may run in several
  cells goes to none;
- memory that is not bound goes to a cell only when every vCPU is pinned into that one cell,
  because then the kernel allocates there;
- on a host of one cell everything belongs to it, whatever is named;
- elsewhere, whatever names a cell that the host does not have, or no cell at all, counts in the
  host's total only. So the cells' sums may be less than the host's.

vCPUs are `<vcpu>`, pinned or not. Inactive domains count: they hold their place on the host. So do
the guests of launcher pods, in the host's total only; each is an instance with a namespace, named
as its libvirt names its domain.

Source: libvirt's domain XML format (`cputune`, `numatune`); kvm-node-agent, whose attribution by
guest cell this replaces.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

from hypercobalt.adapters.libvirt.model import Domain, HostCapabilities, HostCell
from hypercobalt.agent.text import clean
from hypercobalt.api.hypervisor import CPU, MEMORY
from hypercobalt.api.hypervisor_host import Capabilities, Cell, DomainCapabilities
from hypercobalt.api.hypervisor_status import MOST_PORTS, HypervisorStatus, Instance, InstancePort
from hypercobalt.api.quantity import Quantity
from hypercobalt.node_agent.status.parts import Inventory, RunningLauncher

Amounts = dict[str, Quantity]
_UUID: Final = 36  # characters
_LONGEST_NAME: Final = 255  # characters of an instance
_LONGEST_PORT: Final = 40  # characters; an interface id has 36, a device's name 15
FIELDS: Final = (
    "libVirtVersion",
    "hypervisorVersion",
    "hostUUID",
    "instances",
    "instancePorts",
    "numInstances",
    "capabilities",
    "domainCapabilities",
    "allocation",
    "capacity",
    "effectiveCapacity",
    "cells",
)
"""The fields of the status that `status_of` gives."""


def status_of(
    inventory: Inventory,
    overcommit: Mapping[str, float],
    launchers: Sequence[RunningLauncher] = (),
) -> HypervisorStatus:
    """Return the part of the status that libvirt answers for; every other field is absent.

    Args:
        inventory: as read.
        launchers: launcher pods that run.
        overcommit: ratio per resource name, at least 1.0; a missing one is 1.0.
    """
    host, offers, domains = inventory.host, inventory.offers, inventory.domains
    capacity = _amounts(host.memory_bytes, host.cpu_count)
    allocation = _amounts(
        sum(domain.memory_bytes for domain in domains) + sum(one.memory_bytes for one in launchers),
        sum(domain.vcpus for domain in domains) + sum(one.vcpus for one in launchers),
    )
    return HypervisorStatus(
        libVirtVersion=inventory.versions.libvirt,
        hypervisorVersion=inventory.versions.hypervisor,
        hostUUID=host.uuid or None,
        instances=(*launched(launchers), *_instances(domains)),
        instancePorts=_ports(domains),
        numInstances=len(domains) + len(launchers),
        capabilities=Capabilities(
            cpuArch=clean(host.arch), memory=capacity[MEMORY], cpus=capacity[CPU]
        ),
        domainCapabilities=DomainCapabilities(
            arch=clean(offers.arch),
            hypervisorType=clean(offers.hypervisor_type),
            supportedDevices=_texts(offers.devices),
            supportedCpuModes=_texts(offers.cpu_modes),
            supportedFeatures=_texts(offers.features),
        ),
        allocation=allocation,
        capacity=capacity,
        effectiveCapacity=_effective(capacity, overcommit),
        cells=tuple(
            _cell(cell, amounts, overcommit)
            for cell, amounts in _by_cell(host, domains, allocation)
        ),
    )


def launched(launchers: Iterable[RunningLauncher]) -> tuple[Instance, ...]:
    """The instances of launcher pods."""
    ordered = sorted(launchers, key=lambda one: (one.namespace, one.name, one.pod))
    return tuple(
        Instance(
            id=one.pod,
            name=f"{one.namespace}_{one.name}"[:_LONGEST_NAME],
            active=True,
            namespace=one.namespace,
        )
        for one in ordered
    )


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(clean(value) for value in values)


def _instances(domains: Iterable[Domain]) -> tuple[Instance, ...]:
    ordered = sorted(domains, key=lambda domain: (not domain.active, domain.name, domain.uuid))
    return tuple(
        Instance(id=clean(domain.uuid), name=clean(domain.name), active=domain.active)
        for domain in ordered
    )


def _ports(domains: Iterable[Domain]) -> tuple[InstancePort, ...]:
    """Ports of the domains that run; of too many, the first."""
    found = (
        InstancePort(instance=clean(domain.uuid)[:_UUID], port=clean(name)[:_LONGEST_PORT])
        for domain in domains
        if domain.active
        for name in dict.fromkeys((*domain.devices.ports, *domain.devices.plugged))
    )
    return tuple(sorted(islice(found, MOST_PORTS), key=lambda one: (one.instance, one.port)))


def _by_cell(
    host: HostCapabilities, domains: Iterable[Domain], allocation: Amounts
) -> Iterable[tuple[HostCell, Amounts]]:
    if len(host.cells) == 1:
        return [(host.cells[0], allocation)]
    memory = {cell.id: 0 for cell in host.cells}
    cpus = dict(memory)
    for domain in domains:
        homes = _homes(domain, host.cells)
        for home in homes:
            if home is not None:
                cpus[home] += 1
        for cell, share in _memory_shares(domain, homes, memory):
            memory[cell] += share
    cells = sorted(host.cells, key=lambda cell: cell.id)
    return [(cell, _amounts(memory[cell.id], cpus[cell.id])) for cell in cells]


def _homes(domain: Domain, cells: Iterable[HostCell]) -> list[int | None]:
    """The host cell of each pinned vCPU; None for one that may run in several, or in none."""
    pinned = [cpus for vcpu, cpus in domain.pins.items() if 0 <= vcpu < domain.vcpus]
    home_of = {  # of each set once: many vCPUs may share it
        cpus: next((cell.id for cell in cells if cpus and cpus <= cell.cpus), None)
        for cpus in set(pinned)
    }
    return [home_of[cpus] for cpus in pinned]


def _memory_shares(
    domain: Domain, homes: list[int | None], known: Mapping[int, int]
) -> Iterable[tuple[int, int]]:
    """Pairs of host cell and bytes."""
    if domain.memory_nodes:
        for node in domain.memory_nodes:
            cells = sorted(node.host_cells.intersection(known))
            for position, cell in enumerate(cells):
                each, rest = divmod(node.memory_bytes, len(cells))
                yield cell, each + (position < rest)
        return
    only = homes[0] if homes else None
    if only is not None and len(homes) == domain.vcpus and set(homes) == {only}:
        yield only, domain.memory_bytes


def _cell(cell: HostCell, allocation: Amounts, overcommit: Mapping[str, float]) -> Cell:
    capacity = _amounts(cell.memory_bytes, cell.cpu_count)
    return Cell(
        cellID=cell.id,
        allocation=allocation,
        capacity=capacity,
        effectiveCapacity=_effective(capacity, overcommit),
    )


def _amounts(memory_bytes: int, cpus: int) -> Amounts:
    return {CPU: Quantity(cpus), MEMORY: Quantity.of_bytes(memory_bytes)}


def _effective(capacity: Amounts, overcommit: Mapping[str, float]) -> Amounts:
    return {
        resource: amount.times_floor(_ratio(overcommit, resource))
        for resource, amount in capacity.items()
    }


def _ratio(overcommit: Mapping[str, float], resource: str) -> float:
    ratio = float(overcommit.get(resource, 1.0))
    return ratio if math.isfinite(ratio) else 1.0  # JSON allows 1e999
