"""Rules about the guest's size: memory, CPUs, and what is requested for them."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Final

from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required, unsupported

_LEAST_REQUEST: Final = Quantity("1M")
_ZERO: Final = Quantity(0)
_POLICIES: Final = frozenset({"", "force", "require", "optional", "disable", "forbid"})
_MOST_THREADS: Final = 2


def memory(domain: At) -> Iterator[FieldCause]:
    """Whether there is memory, and requests and limits that go with it."""
    request, limit = domain["resources.requests.memory"], domain["resources.limits.memory"]
    guest, pages = domain["memory.guest"], domain["memory.hugepages"]
    if not (guest or pages or request.amount or limit.amount):
        yield required("", "memory of the guest is required: set spec.domain.memory.guest")
    if request.amount < _ZERO:
        yield invalid(request, "must not be negative")
    elif _ZERO < request.amount < _LEAST_REQUEST:
        yield invalid(request, "must be 1M or more")
    if limit.amount < _ZERO:
        yield invalid(limit, "must not be negative")
    if limit.amount > _ZERO and request.amount.value > limit.amount.value:
        yield invalid(request, "must not be above the limit")
    if pages:
        wanted = request.amount or guest.amount or limit.amount
        yield from _huge_pages(pages["pageSize"], wanted.value, request)


def _huge_pages(page: At, wanted: int, request: At) -> Iterator[FieldCause]:
    size = page.amount.value
    if not size:
        yield invalid(page, "must be a size above zero, such as 2Mi")
    elif wanted and (wanted < size or wanted % size):
        yield invalid(request, "must be a multiple of the size of a huge page")


def cpu(domain: At) -> Iterator[FieldCause]:
    """Whether requests, topology and features of the CPUs go together."""
    request, limit = domain["resources.requests.cpu"], domain["resources.limits.cpu"]
    cpu = domain["cpu"]
    for one in (request, limit):
        if one.amount < _ZERO:
            yield invalid(one, "must not be negative")
    if limit.amount > _ZERO and _milli(request.amount) > _milli(limit.amount):
        yield invalid(request, "must not be above the limit")
    if cpu["maxSockets"].number and cpu["sockets"].number > cpu["maxSockets"].number:
        yield invalid(cpu["sockets"], "must not be above maxSockets")
    if cpu["isolateEmulatorThread"].flag and not cpu["dedicatedCpuPlacement"].flag:
        yield invalid(cpu["isolateEmulatorThread"], "needs dedicatedCpuPlacement")
    for feature in cpu["features"]:
        if feature["policy"].text not in _POLICIES:
            known = "force, require, optional, disable or forbid"
            yield unsupported(feature["policy"], f"must be {known}")
    yield from _placement(domain, cpu)
    if cpu["dedicatedCpuPlacement"].flag:
        yield from _dedicated(domain, cpu, request, limit)


def _milli(amount: Quantity) -> int:
    """Thousandths of a CPU, rounded away from zero as KubeVirt compares them."""
    count = -(-abs(amount.nanos) // 10**6)
    return count if amount > _ZERO else -count


def _vcpus(cpu: At) -> int:
    """How many vCPUs the topology has; what is not given counts as one, unless nothing is."""
    given = [cpu[name].number for name in ("sockets", "cores", "threads")]
    return prod(filter(None, given)) if any(given) else 0


def _placement(domain: At, cpu: At) -> Iterator[FieldCause]:
    """NUMA and realtime need CPUs, and memory, of their own."""
    dedicated, numa = cpu["dedicatedCpuPlacement"], cpu["numa.guestMappingPassthrough"]
    if numa:
        if not dedicated.flag:
            yield invalid(numa, "needs dedicatedCpuPlacement")
        if not domain["memory.hugepages"]:
            yield invalid(numa, "needs huge pages")
    if cpu["realtime"]:
        if not dedicated.flag:
            yield required(dedicated, "is required for realtime")
        if not numa:
            yield required(numa, "is required for realtime")


def _dedicated(domain: At, cpu: At, request: At, limit: At) -> Iterator[FieldCause]:
    field = cpu["dedicatedCpuPlacement"]
    wanted, least = domain["resources.limits.memory"], domain["resources.requests.memory"]
    guest, pages = domain["memory.guest"], domain["memory.hugepages"]
    if not (wanted.amount or least.amount or pages or guest.amount):
        yield invalid(wanted, "is needed for dedicated CPUs")
    for one in (request, limit):
        if one.amount > _ZERO and one.amount.value * 1000 != _milli(one.amount):
            yield invalid(one, "must be a whole number for dedicated CPUs")
    if wanted.amount > _ZERO and least.amount > _ZERO and wanted.amount.value != least.amount.value:
        yield invalid(least, "must equal the limit for dedicated CPUs")
    counts, vcpus = {request.amount.value, limit.amount.value}, _vcpus(cpu)
    if not any(counts) and not vcpus:
        yield invalid(field, "needs a request or limit of CPUs, or cores")
    if len(counts) > 1 and min(counts) > 0:
        yield invalid(field, "needs a request of CPUs that equals the limit")
    if vcpus and max(counts) > 0 and vcpus not in counts:
        yield invalid(field, "needs a request or limit of as many CPUs as the guest has")
    if cpu["threads"].number > _MOST_THREADS:
        yield invalid(field, "allows at most two threads for each core")
