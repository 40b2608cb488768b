"""The fence devices of hosts, and one attempt to fence a host with them.

One device that switches the power off suffices. Of those that cut a host off from its storage each
has its own path or pool, so all of them have to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Protocol

from hypercobalt.adapters.fencing.port import (
    Cuts,
    FenceDevice,
    FenceError,
    PowerState,
)
from hypercobalt.api.core import Node, NodeCondition, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.ha.fencing import Means
from hypercobalt.ha.fencing_record import Answer
from hypercobalt.logs import get_logger

log = get_logger(__name__)

READ: Final = timedelta(seconds=20)
"""For reading the state, before and after."""

Devices = Sequence[tuple[FenceDevice, timedelta]]
"""Devices with the timeout of each."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is set up for a host.

    Args:
        power: what switches its power.
        storage: what cuts it off from its storage.
        problem: why none can be used; "" where they can.
    """

    power: Means = field(default_factory=Means)
    storage: Means = field(default_factory=Means)
    problem: str = ""


class Fences(Protocol):
    """The fence devices of a site."""

    def setup(self, node: Node) -> Setup:
        """What is set up for a host."""
        ...

    async def devices(self, node: Node, cuts: Cuts) -> Devices:
        """Its devices of one kind with their timeouts, ready to be called.

        Raises:
            HypercobaltError: a device's credentials cannot be read.
        """
        ...


def vanished(hypervisor: Hypervisor) -> Node:
    """What stands for a Node that was deleted: it reports nothing.

    The Hypervisor still has the labels by which fence devices are found: the operator has copied
    them, and an agent may not write them.
    """
    unknown = NodeCondition(type="Ready", status="Unknown")
    meta = hypervisor.metadata
    return Node(
        metadata=ObjectMeta(name=meta.name, labels=meta.labels),
        status=NodeStatus(conditions=(unknown,)),
    )


async def read_off(devices: Devices, cuts: Cuts, within: timedelta, reached_by: str) -> Answer:
    """Read whether a host is cut off already; nothing is ordered.

    Args:
        devices: of that kind, with the timeout of each.
        cuts: what they cut it off from.
        within: for all of them.
        reached_by: the peer because of which nothing is ordered.
    """
    try:
        async with asyncio.timeout(within.total_seconds()):
            state = await read_state(devices, cuts)
    except TimeoutError:
        state = None
    names = ", ".join(device.name for device, _ in devices)
    what = "the power" if cuts is Cuts.POWER else "the access to the storage"
    if state is PowerState.OFF:
        return Answer(True, f"{names} reports that {what} is off already")
    found = f"reports {what} as on" if state is PowerState.ON else "does not answer"
    return Answer(
        False, f"{names} {found}, and {reached_by} alone reports that the host answers: no order"
    )


async def switch_off(devices: Devices, cuts: Cuts, within: timedelta, guard: LeaderGuard) -> Answer:
    """Cut a host off from one thing, and read that it is.

    Args:
        devices: of that kind, with the timeout of each.
        cuts: what they cut it off from.
        within: for all of them; what has not answered then counts as refused.
        guard: raises when this process does not lead any more; called right before each order.
    """
    texts: list[str] = []
    by = _by_first if cuts is Cuts.POWER else _by_all
    try:
        async with asyncio.timeout(within.total_seconds()):
            off = await by(devices, texts, guard)
    except TimeoutError:
        texts.append(f"no answer within {within.total_seconds():.0f} s")
        off = False
    return Answer(off, "; ".join(texts) or "no fence device is set up")


async def give_back(devices: Devices, within: timedelta, guard: LeaderGuard) -> str:
    """Give a host its storage back by all devices, and read that it has it.

    Returns:
        What went wrong; "" where all of them report it.
    """
    if not devices:
        return "no fence device is set up"
    try:
        async with asyncio.timeout(within.total_seconds()):
            for device, timeout in devices:
                guard()
                await device.on(within=timeout)
                if await device.power(within=READ) is not PowerState.ON:
                    return f"{device.name} has given the access to the storage, but reports it off"
    except FenceError as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {within.total_seconds():.0f} s"
    return ""


async def read_state(devices: Devices, cuts: Cuts) -> PowerState | None:
    """Whether a host is cut off, by its devices; None where that is not known.

    The power is off where one device reads it so; the storage where all do.
    """
    states = [await _read(device) for device, _ in devices]
    last = PowerState.OFF if cuts is Cuts.POWER else PowerState.ON
    if last in states:
        return last
    known = states if cuts is Cuts.STORAGE else [one for one in states if one is not None]
    return known[0] if known and None not in known else None


async def _read(device: FenceDevice) -> PowerState | None:
    try:
        return await device.power(within=READ)
    except FenceError as error:
        log.warning("power_not_read", device=device.name, error=str(error))
        return None


async def _by_first(devices: Devices, texts: list[str], guard: LeaderGuard) -> bool:
    for device, timeout in devices:
        try:
            off, text = await _by(device, "the power", timeout, guard)
        except FenceError as error:
            texts.append(str(error))
        else:
            texts[:] = [text]
            return off
    return False


async def _by_all(devices: Devices, texts: list[str], guard: LeaderGuard) -> bool:
    for device, timeout in devices:
        try:
            off, text = await _by(device, "the access to the storage", timeout, guard)
        except FenceError as error:
            off, text = False, str(error)
        texts.append(text)
        if not off:
            return False
    return bool(devices)


async def _by(
    device: FenceDevice, what: str, within: timedelta, guard: LeaderGuard
) -> tuple[bool, str]:
    # A device may refuse to switch off what is off, so the state is read first.
    if await device.power(within=READ) is PowerState.OFF:
        return True, f"{device.name} reports that {what} is off already"
    guard()
    await device.off(within=within)
    if await device.power(within=READ) is not PowerState.OFF:
        return False, f"{device.name} has switched {what} off, but reports it on"
    return True, f"{device.name} has switched {what} off and reports it off"
