"""Finds fence devices of hosts by a document of templates, and whether they may be used.

A host is refused as a whole where the document is wrong about it: two hosts with one device, or a
device that has reported another system than the host's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from hypercobalt.adapters.fencing.devices import (
    Device,
    DeviceTemplate,
    Identity,
    credentials,
    named_in,
    resolve,
    undecided,
)
from hypercobalt.adapters.fencing.outlets import connection, described, is_same
from hypercobalt.adapters.fencing.port import Credentials, Cuts, FenceDevice
from hypercobalt.api.core import Node, Secret
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import ConfigurationError, HypercobaltError
from hypercobalt.ha.host_failure.facts import FenceSetup, Means
from hypercobalt.operator.ha.devices.fences import READ, Devices
from hypercobalt.operator.ha.devices.identity import (
    DeviceFacts,
    claims,
    holder_among,
    record_of,
    refusal,
)
from hypercobalt.operator.ha.devices.proving import ProvenDevice, Refusal
from hypercobalt.runtime import Kube

BY_DEVICE = "fence-device"
"""Index of Hypervisors, by the connections of their fence devices."""

_READS = 2
_VERSION = 16  # characters

Open = Callable[[Device, Credentials], FenceDevice]
"""Makes the client of a device."""


class KnownHosts(Protocol):
    """The hosts that the operator knows."""

    def get(self, name: str) -> Hypervisor | None:
        """Return the Hypervisor of that name."""
        ...

    def at(self, connection: str) -> Iterable[Hypervisor]:
        """Return hosts with a fence device behind a connection, by the Hypervisors' labels."""
        ...

    def all(self) -> Iterable[Hypervisor]:
        """Return all Hypervisors."""
        ...


@dataclass(frozen=True, slots=True)
class BoundFence:
    """A device of a host, and the facts that are needed to use it.

    Args:
        device: of the document.
        label: canonical name of the device.
        facts: facts that decide whose it is.
    """

    device: Device
    label: str
    facts: DeviceFacts


class TemplateFences:
    """Fence devices by a document of templates, with credentials from Secrets.

    Args:
        templates: of the site.
        kube: reads the Secrets, again at each use: a changed password counts.
        namespace: of the Secrets.
        open: see `Open`.
        hosts: hosts among which no device may occur twice.
    """

    def __init__(
        self,
        templates: tuple[DeviceTemplate, ...],
        kube: Kube,
        namespace: str,
        open_: Open,
        hosts: KnownHosts,
    ) -> None:
        self._templates, self._kube = templates, kube
        self._namespace, self._open, self._hosts = namespace, open_, hosts
        self._named = _by_connection(templates)

    def setup(self, node: Node) -> FenceSetup:
        try:
            found = self.bound(node)
        except ConfigurationError as error:
            return FenceSetup(problem=str(error))
        if problem := self.shared(node.metadata.name, found) or _recorded(found):
            return FenceSetup(problem=problem)
        devices = [one.device for one in found]
        return FenceSetup(_means(devices, Cuts.POWER), _means(devices, Cuts.STORAGE))

    async def devices(self, node: Node, cuts: Cuts) -> Devices:
        found = self.bound(node)
        if problem := self.shared(node.metadata.name, found):
            raise ConfigurationError(problem)
        return [
            (ProvenDevice(await self.opened(one.device), _refusal(one)), one.device.timeout)
            for one in found
            if one.device.cuts is cuts
        ]

    async def version(self, node: Node) -> str:
        try:
            found = [one.device for one in self.bound(node)]
            secrets = sorted({one.secret for one in found if one.secret})
            read = [await self._kube.get(Secret, one, self._namespace) for one in secrets]
        except HypercobaltError:
            return ""
        metas = [(one.metadata.uid, one.metadata.resourceVersion) if one else None for one in read]
        return hashlib.sha256(repr((found, metas)).encode()).hexdigest()[:_VERSION]

    def bound(self, node: Node) -> tuple[BoundFence, ...]:
        """Return the devices of a host.

        Raises:
            ConfigurationError: there is none, or the document cannot be filled in for the Node, or
                does not say which are needed together.
        """
        name = node.metadata.name
        found = resolve(self._templates, name, node.metadata.labels)
        if not found:
            raise ConfigurationError(f"no template of a fence device fits Node {name}")
        if problem := undecided(found):
            raise ConfigurationError(f"fence devices of {name}: {problem}")
        hypervisor = self._hosts.get(name)
        claimed = claims(hypervisor, node)

        def facts(device: Device, label: str) -> DeviceFacts:
            return DeviceFacts(
                device.title,
                device.identity,
                claimed,
                record_of(hypervisor, label),
                lambda uuid: holder_among(self._hosts.all(), name, uuid),
            )

        labels = [described(device) for device in found]
        return tuple(
            BoundFence(device, label, facts(device, label))
            for device, label in zip(found, labels, strict=True)
        )

    def shared(self, name: str, found: Iterable[BoundFence]) -> str:
        """Return which other host has one of these devices as well; "" for none."""
        for one in found:
            for other, devices in self._others(name, one.device):
                if any(is_same(one.device, its) for its in devices):
                    return (
                        f"hosts {' and '.join(sorted((name, other)))} have the same fence device, "
                        f"{one.label}: neither is fenced; correct the document of fence devices"
                    )
        return ""

    def sharers(self, hypervisor: Hypervisor) -> Iterator[str]:
        """Return the hosts behind the connections of a host's devices: itself, and others."""
        yield hypervisor.metadata.name
        for device in _of_labels(self._templates, hypervisor):
            yield from (host for host, _ in self._others(hypervisor.metadata.name, device))

    async def opened(self, device: Device) -> FenceDevice:
        """Return the client of a device, with its credentials.

        Raises:
            HypercobaltError: these cannot be read.
        """
        return self._open(device, await self._credentials(device))

    def _others(self, name: str, device: Device) -> Iterator[tuple[str, tuple[Device, ...]]]:
        for found in self._hosts.at(connection(device)):
            if found.metadata.name != name:
                yield found.metadata.name, _of_labels(self._templates, found)
        for other, devices in self._named.get(connection(device), {}).items():
            if other != name:
                yield other, devices

    async def _credentials(self, device: Device) -> Credentials:
        if not device.secret:
            return Credentials()
        found = await self._kube.get(Secret, device.secret, self._namespace)
        if found is None:
            secret = f"{self._namespace}/{device.secret}"
            raise ConfigurationError(f"fence device {device.title}: Secret {secret} does not exist")
        return credentials(found.data)


def connections(templates: tuple[DeviceTemplate, ...]) -> Callable[[Hypervisor], Iterable[str]]:
    """Index function: see `BY_DEVICE`."""

    def of(hypervisor: Hypervisor) -> Iterable[str]:
        return {connection(device) for device in _of_labels(templates, hypervisor)}

    return of


def _of_labels(templates: tuple[DeviceTemplate, ...], hypervisor: Hypervisor) -> tuple[Device, ...]:
    meta = hypervisor.metadata
    try:
        return resolve(templates, meta.name, meta.labels)
    except ConfigurationError:  # it has none that can be used
        return ()


def _by_connection(
    templates: tuple[DeviceTemplate, ...],
) -> dict[str, dict[str, tuple[Device, ...]]]:
    """Return the devices that a document names for hosts, whether the hosts exist or not."""
    found: dict[str, dict[str, tuple[Device, ...]]] = {}
    for name in sorted(named_in(templates)):
        devices = _of_labels(templates, Hypervisor(metadata=ObjectMeta(name=name)))
        for device in devices:
            found.setdefault(connection(device), {})[name] = devices
    return found


def _refusal(bound: BoundFence) -> Refusal | None:
    if bound.device.identity is Identity.IGNORED:
        return None
    return lambda reported, unread: refusal(bound.facts, reported, unread)


def _recorded(found: Iterable[BoundFence]) -> str:
    """Return why a device is not the host's, as found while the host was well."""
    for one in found:
        record, identity = one.facts.record, one.facts.identity
        if record is not None and not record.proven and identity is not Identity.IGNORED:
            return record.problem or f"{one.label} is another host's device"
    return ""


def _means(devices: Iterable[Device], cuts: Cuts) -> Means:
    """Return the devices of one kind, and how long an attempt with all of them may take.

    Each is read before and after its order; of several each once more when the last one is off.
    """
    ways: dict[str, list[Device]] = {}
    for one in devices:
        if one.cuts is cuts:
            ways.setdefault(one.alternative, []).append(one)
    found = [one for way in ways.values() for one in way]
    reads = _READS if len(found) == 1 else _READS + 1
    lasts = sum((one.timeout + reads * READ for one in found), timedelta(0))
    titles = (", ".join(one.title for one in way) for way in ways.values())
    return Means(" or ".join(titles), lasts)
