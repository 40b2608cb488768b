"""Rules about the guest's size: memory, CPUs, and what is requested for them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required, unsupported

_LEAST_REQUEST: Final = Quantity("1M")
_ZERO: Final = Quantity(0)
_NANOS: Final = 10**9
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
    if limit.amount > _ZERO and request.amount > limit.amount:
        yield invalid(request, "must not be above the limit")
    if pages:
        yield from _huge_pages(domain, request if request.amount else guest)


def _huge_pages(domain: At, memory: At) -> Iterator[FieldCause]:
    page = domain["memory.hugepages.pageSize"]
    size, wanted = page.amount.value, memory.amount.value
    if size and (wanted < size or wanted % size):
        path = domain["resources.requests.memory"]
        yield invalid(path, "must be a multiple of the size of a huge page")
    elif size <= 0:
        yield invalid(page, "must be a size above zero, such as 2Mi")


def cpu(domain: At) -> Iterator[FieldCause]:
    """Whether requests, topology and features of the CPUs go together."""
    request, limit = domain["resources.requests.cpu"], domain["resources.limits.cpu"]
    cpu = domain["cpu"]
    for one in (request, limit):
        if one.amount < _ZERO:
            yield invalid(one, "must not be negative")
    if limit.amount > _ZERO and request.amount > limit.amount:
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
    if not (wanted or least or domain["memory.guest"] or domain["memory.hugepages"]):
        yield invalid(wanted, "is needed for dedicated CPUs")
    for one in (request, limit):
        if one.amount.nanos % _NANOS:
            yield invalid(one, "must be a whole number for dedicated CPUs")
    if wanted.amount > _ZERO and least.amount > _ZERO and wanted.amount != least.amount:
        yield invalid(least, "must equal the limit for dedicated CPUs")
    if not (request.amount or limit.amount or cpu["cores"].number):
        yield invalid(field, "needs a request or limit of CPUs, or cores")
    if (
        request.amount > _ZERO
        and limit.amount > _ZERO
        and request.amount.value != limit.amount.value
    ):
        yield invalid(field, "needs a request of CPUs that equals the limit")
    if cpu["threads"].number > _MOST_THREADS:
        yield invalid(field, "allows at most two threads for each core")
