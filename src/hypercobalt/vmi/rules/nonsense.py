"""What KubeVirt accepts though it can never run, or not as it says.

Judged last, and only if nothing else is wrong: clients compare the fields that KubeVirt names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.api.quantity import Quantity
from hypercobalt.vmi.cluster import ClusterConfig
from hypercobalt.vmi.grace import LONGEST_GRACE_SECONDS
from hypercobalt.vmi.paths import POD_VOLUMES
from hypercobalt.vmi.reading import At
from hypercobalt.vmi.review import FieldCause
from hypercobalt.vmi.rules.causes import invalid, required
from hypercobalt.vmi.support import NOT_HONOURED

_LEAST_MEMORY: Final = Quantity("1Mi")
_ZERO: Final = Quantity(0)
_UUID: Final = re.compile(r"[\da-fA-F]{8}(-[\da-fA-F]{4}){3}-[\da-fA-F]{12}", re.ASCII)
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ZONE: Final = re.compile(r"[\w+-]{1,64}(/[\w+-]{1,64}){0,3}", re.ASCII)
_PCI: Final = re.compile(r"0000:[\da-f]{2}:[01][\da-f]\.[0-7]", re.ASCII | re.IGNORECASE)
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
        yield _unfit(guest, "must be 1Mi or more")
    if most.amount < _ZERO:
        yield _unfit(most, "must not be negative")
    yield from vcpus(spec, cluster)
    if cluster.use_emulation and domain["cpu.model"].text == "host-passthrough":
        yield _unfit(domain["cpu.model"], "needs KVM")
    grace = spec["terminationGracePeriodSeconds"]
    if not 0 <= grace.number <= LONGEST_GRACE_SECONDS:
        yield _unfit(grace, f"must be from 0 to {LONGEST_GRACE_SECONDS}")
    uuid = domain["firmware.uuid"]
    if uuid.text and not _UUID.fullmatch(uuid.text):
        yield invalid(uuid, "must be a UUID")
    for path in _TEXTS:
        if _CONTROL.search(spec[path].text):
            yield invalid(spec[path], "must not have line ends or control characters")
    zone = domain["clock.timezone"]
    if zone.text and not (_CONTROL.search(zone.text) or _ZONE.fullmatch(zone.text)):
        yield _unfit(zone, "must be the name of a time zone, such as Europe/Berlin, and no path")
    yield from _addresses(domain["devices"])
    for volume in spec["volumes"]:
        capacity, image = volume["emptyDisk.capacity"], volume["containerDisk.image"]
        if capacity and capacity.amount <= _ZERO:
            yield invalid(capacity, "must be above zero")
        if volume["containerDisk"] and not image.text:
            yield required(image, "is required")
        if volume["containerDisk"] and volume["name"].text in POD_VOLUMES:
            yield _unfit(volume["name"], "must not be that of a volume of the launcher pod")


def _addresses(devices: At) -> Iterator[FieldCause]:
    """PCI addresses that libvirt's machines do not have: one domain, of buses with 32 slots."""
    named = [disk["disk.pciAddress"] for disk in devices["disks"]]
    named += [interface["pciAddress"] for interface in devices["interfaces"]]
    for address in named:
        if address.text and not _PCI.fullmatch(address.text):
            yield _unfit(address, "must be from 0000:00:00.0 to 0000:ff:1f.7")


def _unfit(at: At, what: str) -> FieldCause:
    """A value that KubeVirt takes, and with which no guest of this version starts."""
    return invalid(at, f"{str(at.value)[:64]!r} is {NOT_HONOURED}: it {what}")


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
