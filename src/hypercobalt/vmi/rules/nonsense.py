"""What KubeVirt accepts though it can never run, or not as it says.

Judged last, and only if nothing else is wrong: clients compare the fields that KubeVirt names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required
from hypercobalt.vmi.support import NOT_HONOURED

_LEAST_MEMORY: Final = Quantity("1Mi")
_ZERO: Final = Quantity(0)
_UUID: Final = re.compile(r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_INT32: Final = 2**31 - 1
_TOPOLOGY: Final = ("sockets", "cores", "threads")
_TEXTS: Final = (
    "domain.firmware.serial",
    "domain.cpu.model",
    "domain.clock.timezone",
    "domain.firmware.kernelBoot.kernelArgs",
)


def nonsense(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """What no guest can have."""
    domain = spec["domain"]
    guest, most = domain["memory.guest"], domain["memory.maxGuest"]
    if guest and guest.amount < _LEAST_MEMORY:
        yield invalid(guest, "must be 1Mi or more")
    if most.amount < _ZERO:
        yield invalid(most, "must not be negative")
    yield from vcpus(spec, cluster)
    if cluster.use_emulation and domain["cpu.model"].text == "host-passthrough":
        yield invalid(domain["cpu.model"], f"without KVM is {NOT_HONOURED}")
    if spec["terminationGracePeriodSeconds"].number < 0:
        yield invalid(spec["terminationGracePeriodSeconds"], "must not be negative")
    uuid = domain["firmware.uuid"]
    if uuid.text and not _UUID.fullmatch(uuid.text):
        yield invalid(uuid, "must be a UUID")
    for path in _TEXTS:
        if _CONTROL.search(spec[path].text):
            yield invalid(spec[path], "must not have line ends or control characters")
    for volume in spec["volumes"]:
        capacity, image = volume["emptyDisk.capacity"], volume["containerDisk.image"]
        if capacity and capacity.amount <= _ZERO:
            yield invalid(capacity, "must be above zero")
        if volume["containerDisk"] and not image.text:
            yield required(image, "is required")


def beyond_schema(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Counts of vCPUs that the definition's schema would refuse too, but without their field."""
    cpu = spec["domain.cpu"]
    if any(cpu[name].number > _INT32 for name in _TOPOLOGY):
        yield from vcpus(spec, cluster)


def vcpus(spec: At, cluster: ClusterConfig) -> Iterator[FieldCause]:
    """Whether there are no more vCPUs than a machine takes; an absent count is one."""
    cpu = spec["domain.cpu"]
    count = 1
    for name in _TOPOLOGY:
        count *= max(cpu[name].number, 1)
    if count > cluster.max_vcpus:
        yield invalid(cpu, f"must not have more than {cluster.max_vcpus} vCPUs, not {count}")
