"""The fence devices of hosts, and one attempt to switch a host off with them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Protocol

from hypercobalt.adapters.fencing.devices import Device, DeviceTemplate, credentials, resolve
from hypercobalt.adapters.fencing.port import Credentials, FenceDevice, FenceError, PowerState
from hypercobalt.api.core import Node, NodeCondition, NodeStatus, Secret
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.errors import ConfigurationError
from hypercobalt.ha.fencing import Answer
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube

log = get_logger(__name__)

_READ: Final = timedelta(seconds=20)
"""For reading the power, before and after."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is set up for a host.

    Args:
        devices: in the order in which they are tried, for people; () for none.
        lasts: how long an attempt with all of them may take.
        problem: why none can be used; "" where they can.
    """

    devices: tuple[str, ...] = ()
    lasts: timedelta = timedelta(0)
    problem: str = ""


class Fences(Protocol):
    """The fence devices of a site."""

    def setup(self, node: Node) -> Setup:
        """What is set up for a host."""
        ...

    async def devices(self, node: Node) -> Sequence[tuple[FenceDevice, timedelta]]:
        """Its devices with their timeouts, ready to be called.

        Raises:
            HypercobaltError: a device's credentials cannot be read.
        """
        ...


Open = Callable[[Device, Credentials], FenceDevice]
"""Makes what speaks to a device."""


class TemplateFences:
    """Devices by a document of templates, credentials by Secrets.

    Args:
        templates: of the site.
        kube: reads the Secrets, each time anew: a password that was changed counts.
        namespace: of the Secrets.
        open: see `Open`.
    """

    def __init__(
        self, templates: tuple[DeviceTemplate, ...], kube: Kube, namespace: str, open_: Open
    ) -> None:
        self._templates, self._kube = templates, kube
        self._namespace, self._open = namespace, open_

    def setup(self, node: Node) -> Setup:
        try:
            found = self._resolve(node)
        except ConfigurationError as error:
            return Setup(problem=str(error))
        if not found:
            return Setup(problem=f"no template of a fence device fits Node {node.metadata.name}")
        lasts = sum((one.timeout + 2 * _READ for one in found), timedelta(0))
        return Setup(tuple(one.title for one in found), lasts)

    async def devices(self, node: Node) -> Sequence[tuple[FenceDevice, timedelta]]:
        return [
            (self._open(one, await self._credentials(one)), one.timeout)
            for one in self._resolve(node)
        ]

    def _resolve(self, node: Node) -> tuple[Device, ...]:
        return resolve(self._templates, node.metadata.name, node.metadata.labels)

    async def _credentials(self, device: Device) -> Credentials:
        if not device.secret:
            return Credentials()
        found = await self._kube.get(Secret, device.secret, self._namespace)
        if found is None:
            secret = f"{self._namespace}/{device.secret}"
            raise ConfigurationError(f"fence device {device.title}: Secret {secret} does not exist")
        return credentials(found.data)


def vanished(hypervisor: Hypervisor) -> Node:
    """What stands for a Node that was deleted: it reports nothing.

    The Hypervisor still has the labels by which fence devices are found.
    """
    unknown = NodeCondition(type="Ready", status="Unknown")
    meta = hypervisor.metadata
    return Node(
        metadata=ObjectMeta(name=meta.name, labels=meta.labels),
        status=NodeStatus(conditions=(unknown,)),
    )


async def switch_off(
    devices: Sequence[tuple[FenceDevice, timedelta]], within: timedelta, guard: LeaderGuard
) -> Answer:
    """Switch a host off with the first device that does it, and read that it is off.

    Args:
        devices: with the timeout of each.
        within: for all of them; what has not answered then counts as refused.
        guard: raises when this process does not lead any more; asked right before each order.
    """
    answers: list[str] = []
    try:
        async with asyncio.timeout(within.total_seconds()):
            for device, timeout in devices:
                try:
                    return await _by(device, timeout, guard)
                except FenceError as error:
                    answers.append(str(error))
    except TimeoutError:
        answers.append(f"no answer within {within.total_seconds():.0f} s")
    return Answer(False, "; ".join(answers) or "no fence device is set up")


async def read_power(devices: Sequence[tuple[FenceDevice, timedelta]]) -> PowerState | None:
    """The power of a host by its devices: off where one reads it so; None where none answers."""
    found: PowerState | None = None
    for device, _ in devices:
        try:
            state = await device.power(within=_READ)
        except FenceError as error:
            log.warning("power_not_read", device=device.name, error=str(error))
            continue
        if state is PowerState.OFF:
            return state
        found = state
    return found


async def _by(device: FenceDevice, within: timedelta, guard: LeaderGuard) -> Answer:
    # A device may refuse to switch off what is off, so the state is read first.
    if await device.power(within=_READ) is PowerState.OFF:
        return Answer(True, f"{device.name} reports that the power is off already")
    guard()
    await device.off(within=within)
    if await device.power(within=_READ) is not PowerState.OFF:
        return Answer(False, f"{device.name} has switched the power off, but reports it on")
    return Answer(True, f"{device.name} has switched the power off and reports it off")
