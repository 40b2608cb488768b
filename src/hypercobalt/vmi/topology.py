"""How many vCPUs a guest has, and how much memory: what pod and domain document agree on.

Hotplug is not honoured yet: `cpu.maxSockets` and `memory.maxGuest` are defaulted and shown, but the
guest gets what it has at its start and no place for more.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypercobalt.api.kubevirt.machine import CPUSpec
from hypercobalt.api.kubevirt.spec import DomainSpec
from hypercobalt.api.quantity import Quantity, QuantityError
from hypercobalt.vmi.unfit import MOST_VCPUS, UnfitVMIError

_MEMORY = "spec.domain.memory.guest"
_MOST_BYTES = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Topology:
    sockets: int
    cores: int  # of a socket
    threads: int  # of a core

    @property
    def vcpus(self) -> int:
        return self.sockets * self.cores * self.threads


def topology(cpu: CPUSpec | None) -> Topology:
    """The guest's CPUs; a count that is zero or absent is one.

    Raises:
        UnfitVMIError: a count is negative, or there are too many.
    """
    spec = cpu or CPUSpec()
    counts = {"sockets": spec.sockets, "cores": spec.cores, "threads": spec.threads}
    for name, count in counts.items():
        if not 0 <= count <= MOST_VCPUS:
            raise UnfitVMIError(f"spec.domain.cpu.{name}", f"{count} is not from 0 to {MOST_VCPUS}")
    found = Topology(*(count or 1 for count in counts.values()))
    if found.vcpus > MOST_VCPUS:
        raise UnfitVMIError("spec.domain.cpu", f"{found.vcpus} vCPUs are more than {MOST_VCPUS}")
    return found


def guest_memory(domain: DomainSpec) -> Quantity:
    """The guest's memory: its own field, else the request, else the limit.

    Raises:
        UnfitVMIError: there is none, or it is no positive number of bytes.
    """
    own = domain.memory.guest if domain.memory else None
    requests, limits = domain.resources.requests, domain.resources.limits
    given = own if own is not None else requests.get("memory", limits.get("memory"))
    if given is None:
        raise UnfitVMIError(_MEMORY, "no memory is given")
    return amount(given, _MEMORY, least=1)


def amount(given: Quantity, field: str, *, least: int = 0) -> Quantity:
    """A quantity that can be read and lies within bounds.

    Args:
        given: as it came.
        field: its path, for the message.
        least: whole units.

    Raises:
        UnfitVMIError: it cannot be read, or is below `least` or beyond 2**63 - 1.
    """
    try:
        units = given.value
    except QuantityError as exc:
        raise UnfitVMIError(field, str(exc)) from exc
    if not least <= units <= _MOST_BYTES:
        raise UnfitVMIError(field, f"{given.wire[:64]} is not from {least} to 2**63 - 1")
    return given
