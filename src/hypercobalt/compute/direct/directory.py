"""Which hosts there are: by the Hypervisors of a cluster, or by anything else.

Capacity is what may be promised (`status.effectiveCapacity`), used what the node agent counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import CPU, MEMORY, Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.quantity import Quantity
from hypercobalt.compute.direct.settings import DirectSettings
from hypercobalt.compute.model import Size

_MIB = 1024 * 1024
_NOTHING = Size(0, 0)


@dataclass(frozen=True, slots=True)
class Place:
    """One host.

    Args:
        name: of the Hypervisor.
        id: UUID that stays, for those who want one.
        control: URI by which this process reaches its libvirtd.
        migration: URI by which the other hosts' libvirtds reach it.
        stream: URI of the memory's stream to it, `tcp://192.0.2.1`; "" leaves it to libvirt.
        capacity: what may be promised on it.
        used: what has been promised, by its agent.
        guests: UUIDs of the domains that `used` counts.
        disabled: why it is out of service, by its Hypervisor; "" when it is in service.
        closed: why nothing may go there; "" when it may.
        up: its libvirtd answers, by its agent.
    """

    name: str
    id: str
    control: str
    migration: str
    stream: str = ""
    capacity: Size = _NOTHING
    used: Size = _NOTHING
    guests: frozenset[str] = frozenset()
    disabled: str = ""
    closed: str = ""
    up: bool = True


class Directory(Protocol):
    """The hosts of a site."""

    def places(self) -> tuple[Place, ...]:
        """All of them, as they are known now."""
        ...


class HypervisorDirectory:
    """The hosts by their Hypervisors.

    Args:
        hypervisors: gives the objects as they are known now.
        settings: how they are reached.
    """

    def __init__(
        self, hypervisors: Callable[[], Iterable[Hypervisor]], settings: DirectSettings
    ) -> None:
        self._hypervisors, self._settings = hypervisors, settings

    def places(self) -> tuple[Place, ...]:
        return tuple(
            place(one, self._settings) for one in self._hypervisors() if one.status.internalIp
        )


def fill(template: str, name: str, ip: str) -> str:
    """An address of a host."""
    bracketed = f"[{ip}]" if ":" in ip else ip
    return template.replace("{name}", name).replace("{ip}", bracketed)


def place(hypervisor: Hypervisor, settings: DirectSettings) -> Place:
    """The host of a Hypervisor that has an address."""
    status, name = hypervisor.status, hypervisor.metadata.name
    ip = status.internalIp or ""
    return Place(
        name=name,
        id=hypervisor.metadata.uid,
        control=fill(settings.control, name, ip),
        migration=fill(settings.migration, name, ip),
        stream=fill(settings.stream, name, ip),
        capacity=_size(status.effectiveCapacity or status.capacity),
        used=_size(status.allocation),
        guests=frozenset(instance.id for instance in status.instances),
        disabled=_why_disabled(hypervisor),
        closed=_why_closed(hypervisor),
        up=_is_up(hypervisor),
    )


def _why_disabled(hypervisor: Hypervisor) -> str:
    if hypervisor.metadata.deletionTimestamp is not None:
        return "it is being deleted"
    maintenance = hypervisor.spec.maintenance
    return f"it is in maintenance ({maintenance})" if maintenance else ""


def _why_closed(hypervisor: Hypervisor) -> str:
    if disabled := _why_disabled(hypervisor):
        return disabled
    ready = get_condition(hypervisor.conditions, HypervisorConditionType.READY)
    if ready is None or ready.status != "True":
        return f"it is not ready: {ready.message}" if ready else "it is not ready"
    accepts = get_condition(hypervisor.conditions, HypervisorConditionType.ACCEPTS_NEW_INSTANCES)
    if accepts is not None and accepts.status == "False":
        return f"it takes no new instances: {accepts.message}"
    return "" if _is_up(hypervisor) else "its libvirtd does not answer"


def _is_up(hypervisor: Hypervisor) -> bool:
    connection = get_condition(hypervisor.conditions, HypervisorConditionType.LIBVIRT_CONNECTION)
    return connection is not None and connection.status == "True"


def _size(resources: Mapping[str, Quantity]) -> Size:
    cpu, memory = resources.get(CPU), resources.get(MEMORY)
    return Size(float(cpu.as_fraction()) if cpu else 0, memory.value // _MIB if memory else 0)
