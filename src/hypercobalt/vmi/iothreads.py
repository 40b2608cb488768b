"""Threads of QEMU that serve disks, and which disk has which.

Disks on virtio alone have them. A disk that asks for a thread has one of its own, the others share
what is left of the policy's limit, in turn. A supplemental pool serves every such disk by all of
its threads.

Source: kubevirt, pkg/virt-launcher, as recorded; libvirt, formatdomain, IOThreads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hypercobalt.api.kubevirt.devices import DiskSpec
from hypercobalt.api.kubevirt.spec import DomainSpec
from hypercobalt.vmi.topology import amount
from hypercobalt.vmi.unfit import UnfitVMIError

MOST: Final = 256
"""Threads of one guest."""

_AUTO_PER_CPU: Final = 2
_COUNT: Final = "spec.domain.ioThreads.supplementalPoolThreadCount"


@dataclass(frozen=True, slots=True)
class IOThreads:
    """The threads of a guest.

    Attributes:
        count: all of them; 0 for none.
        of: the thread of each virtio disk, by its name; from 1.
        pool: threads that serve every virtio disk together.
    """

    count: int = 0
    of: dict[str, int] = field(default_factory=dict[str, int])
    pool: range = range(0)


def io_threads(domain: DomainSpec) -> IOThreads:
    """Distribute the threads.

    Raises:
        UnfitVMIError: the pool has no size, or too many threads.
    """
    disks = domain.devices.disks
    pool = pool_size(domain)
    if pool:
        return IOThreads(pool, pool=range(1, pool + 1))
    own = sum(1 for disk in disks if disk.dedicatedIOThread)
    if not domain.ioThreadsPolicy and not own:
        return IOThreads()
    shared = min(len(disks) - own, max(_limit(domain) - own, 1))
    return IOThreads(shared + own, _assigned(disks, shared))


def _limit(domain: DomainSpec) -> int:
    """Threads of the policy; `auto` follows the CPUs of the pod."""
    if domain.ioThreadsPolicy != "auto":
        return 1
    resources = domain.resources
    given = resources.requests.get("cpu", resources.limits.get("cpu"))
    cpus = 1 if given is None else amount(given, "spec.domain.resources.requests.cpu").value
    return min(_AUTO_PER_CPU * cpus, MOST)


def _assigned(disks: Sequence[DiskSpec], shared: int) -> dict[str, int]:
    threads: dict[str, int] = {}
    own, turn = shared, 0
    for disk in disks:
        if disk.disk is None or disk.disk.bus != "virtio":
            continue
        if disk.dedicatedIOThread:
            own += 1
            threads[disk.name] = own
        else:
            threads[disk.name] = turn % shared + 1
            turn += 1
    return threads


def pool_size(domain: DomainSpec) -> int:
    """Threads of the supplemental pool; 0 where the policy is another one.

    Raises:
        UnfitVMIError: the pool has no size, or too many threads.
    """
    if domain.ioThreadsPolicy != "supplementalPool":
        return 0
    count = domain.ioThreads.supplementalPoolThreadCount if domain.ioThreads else None
    if count is None or not 1 <= count <= MOST:
        raise UnfitVMIError(_COUNT, f"{count} is not from 1 to {MOST}")
    return count
