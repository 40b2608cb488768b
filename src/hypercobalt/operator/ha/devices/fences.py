"""The fence devices of hosts, and one attempt to fence a host with them.

Each device of a host may switch one of its power feeds, or one path to its storage: all of them
have to report it off, or all of one alternative where the site's document has such.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, NamedTuple, Protocol

from hypercobalt.adapters.fencing.port import (
    NEED_CORRECTION,
    Cuts,
    FenceDevice,
    FenceError,
    PowerState,
    combined,
    ways_off,
)
from hypercobalt.api.core import Node, NodeCondition, NodeStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.leadership import LeaderGuard
from hypercobalt.ha.host_failure.facts import FenceSetup
from hypercobalt.ha.host_failure.fencing_record import DeviceAnswer
from hypercobalt.logs import get_logger

log = get_logger(__name__)

READ: Final = timedelta(seconds=20)
"""Time to read the state, before and after the order."""
_SECOND: Final = timedelta(seconds=5)
"""Time for a second way, without a wait for it: the first one suffices for most instances."""

_WHAT: Final = {Cuts.POWER: "the power", Cuts.STORAGE: "the access to the storage"}

Devices = Sequence[tuple[FenceDevice, timedelta]]
"""Devices with the timeout of each."""


class Fences(Protocol):
    """The fence devices of a site."""

    def setup(self, node: Node) -> FenceSetup:
        """Return the fence devices that are set up for a host."""
        ...

    async def devices(self, node: Node, cuts: Cuts) -> Devices:
        """Return the host's devices of one kind with their timeouts, ready for calls.

        Raises:
            HypercobaltError: a device's credentials cannot be read.
        """
        ...

    async def version(self, node: Node) -> str:
        """Return what changes whenever the document or a Secret of the host's devices does.

        "" where that cannot be read now.
        """
        ...


def vanished(hypervisor: Hypervisor) -> Node:
    """Return a stand-in for a Node that was deleted: it reports nothing.

    The Hypervisor still has the labels by which fence devices are found: the operator has copied
    them, and an agent may not write them.
    """
    unknown = NodeCondition(type="Ready", status="Unknown")
    meta = hypervisor.metadata
    return Node(
        metadata=ObjectMeta(name=meta.name, labels=meta.labels),
        status=NodeStatus(conditions=(unknown,)),
    )


async def read_off(
    devices: Devices, cuts: Cuts, within: timedelta, reached_by: str
) -> DeviceAnswer:
    """Read whether a host is cut off already; nothing is ordered.

    Args:
        devices: of that kind, with the timeout of each.
        cuts: thing that they cut it off from.
        within: for all of them.
        reached_by: the peer because of which nothing is ordered.
    """
    try:
        async with asyncio.timeout(within.total_seconds()):
            state = await read_state(devices, cuts)
    except TimeoutError:
        state = None
    names = ", ".join(device.name for device, _ in devices)
    what = _WHAT[cuts]
    if state is PowerState.OFF:
        # Some of them may be silent, so this is one way at most.
        return DeviceAnswer(True, f"{names} reports that {what} is off already", already=True)
    found = f"reports {what} as on" if state is PowerState.ON else "does not answer"
    text = f"{names} {found}, and {reached_by} alone reports that the host answers: no order"
    return DeviceAnswer(False, text, acts_late=False)


async def switch_off(
    devices: Devices, cuts: Cuts, within: timedelta, guard: LeaderGuard
) -> DeviceAnswer:
    """Cut a host off from one thing, and check that by a read.

    Args:
        devices: of that kind, with the timeout of each.
        cuts: thing that they cut it off from.
        within: for all of them; what has not answered then counts as refused.
        guard: raises when this process does not lead any more; called right before each order.
    """
    attempt = _Attempt(_WHAT[cuts], guard)
    way: Devices | None = None
    second = ""
    try:
        async with asyncio.timeout(within.total_seconds()):
            way = await attempt.by_any(devices)
            second = await _confirmed(way, devices, _WHAT[cuts]) if way else ""
    except TimeoutError:
        if not way:
            attempt.texts.append(f"no answer within {within.total_seconds():.0f} s")
    return DeviceAnswer(
        bool(way),
        "; ".join(attempt.texts) or "no fence device is set up",
        second,
        already=bool(way) and not attempt.orders,
        acts_late=bool(attempt.open),
        refused="" if way else "; ".join(attempt.refused),
    )


async def give_back(devices: Devices, within: timedelta, guard: LeaderGuard) -> str:
    """Give a host its storage back by all devices, and check that by a read.

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


class Cycled(NamedTuple):
    """Result of a reboot.

    Args:
        problem: what went wrong; "" where every device reports each state.
        ordered: an order was given, and may act late.
    """

    problem: str = ""
    ordered: bool = True


async def power_cycle(devices: Devices, within: timedelta, guard: LeaderGuard) -> Cycled:
    """Switch a host that runs off and on again, by all devices of one alternative."""
    ordered = False
    try:
        async with asyncio.timeout(within.total_seconds()):
            way = await _way_on(devices)
            if not way:
                names = ", ".join(device.name for device, _ in devices) or "none"
                text = f"{names} does not report the power as on, though the host reports"
                return Cycled(text, ordered)
            for device, timeout in way:
                guard()
                ordered = True
                await device.off(within=timeout)
            if await _state(device for device, _ in way) is not PowerState.OFF:
                return Cycled("not every device reports the power as off after the order")
            for device, timeout in way:
                guard()
                await device.on(within=timeout)
            on = [await _read(device) is PowerState.ON for device, _ in way]
    except FenceError as error:
        return Cycled(str(error), ordered)
    except TimeoutError:
        return Cycled(f"no answer within {within.total_seconds():.0f} s", ordered)
    return Cycled(
        "" if all(on) else "the host is off: not every device reports the power as on again"
    )


async def _way_on(devices: Devices) -> Devices:
    """Return the first alternative of which every device reads the power as on; () for none."""
    for alternative in dict.fromkeys(device.alternative for device, _ in devices):
        way = [one for one in devices if one[0].alternative == alternative]
        if all([await _read(device) is PowerState.ON for device, _ in way]):
            return way
    return ()


async def read_state(devices: Devices, cuts: Cuts) -> PowerState | None:
    """Read whether a host is cut off, by all its devices of one kind; see `combined`."""
    state = await _state([device for device, _ in devices])
    if state is None:
        log.warning("power_not_known", cuts=cuts, devices=[device.name for device, _ in devices])
    return state


async def _state(devices: Iterable[FenceDevice]) -> PowerState | None:
    every = tuple(devices)
    read = await asyncio.gather(*(_read(device) for device in every))
    return combined([(one.alternative, state) for one, state in zip(every, read, strict=True)])


async def _read(device: FenceDevice, within: timedelta = READ) -> PowerState | None:
    try:
        return await device.power(within=within)
    except FenceError as error:
        log.warning("power_not_read", device=device.name, error=str(error))
        return None


async def _confirmed(way: Devices, devices: Devices, what: str) -> str:
    """Return another way that reports the same, of devices that share no connection with it."""
    used = {device.connection for device, _ in way}
    same = {device.alternative for device, _ in devices if device.connection in used}
    others = [device for device, _ in devices if device.alternative not in same]
    read = await asyncio.gather(*(_read(device, _SECOND) for device in others))
    for other in ways_off(
        (one.alternative, state) for one, state in zip(others, read, strict=True)
    ):
        names = ", ".join(device.name for device in others if device.alternative == other)
        return f"{names} reports that {what} is off, too"
    return ""


@dataclass
class _Attempt:
    """The calls of one attempt to cut a host off.

    Args:
        what: thing that the host is cut off from, for people.
        guard: see `switch_off`.
        texts: results.
        orders: number of orders given.
        open: devices whose order may act yet: not read as off since.
        refused: failures that a person has to correct.
    """

    what: str
    guard: LeaderGuard
    texts: list[str] = field(default_factory=list[str])
    orders: int = 0
    open: set[str] = field(default_factory=set[str])
    refused: list[str] = field(default_factory=list[str])

    async def by_any(self, devices: Devices) -> Devices | None:
        """Cut the host off by all devices of the first alternative that works."""
        for alternative in dict.fromkeys(device.alternative for device, _ in devices):
            way = [one for one in devices if one[0].alternative == alternative]
            done: list[str] = []
            if await self._by_all(way, done):
                # An outlet may have been switched on again before the last one was off.
                if len(way) == 1 or await _state(device for device, _ in way) is PowerState.OFF:
                    self.texts[:] = done
                    return way
                done.append(f"read again, not every device reports {self.what} as off")
            self.texts.extend(done)
        return None

    async def _by_all(self, devices: Devices, texts: list[str]) -> bool:
        for device, timeout in devices:
            try:
                off, text = await self._by(device, timeout)
            except FenceError as error:
                off, text = False, str(error)
                if error.failure in NEED_CORRECTION:
                    self.refused.append(text)
            texts.append(text)
            if not off:
                return False
        return bool(devices)

    async def _by(self, device: FenceDevice, within: timedelta) -> tuple[bool, str]:
        # A device may refuse to switch off what is off, so the state is read first.
        if await device.power(within=READ) is PowerState.OFF:
            return True, f"{device.name} reports that {self.what} is off already"
        self.guard()
        self.orders += 1
        self.open.add(device.name)
        await device.off(within=within)
        if await device.power(within=READ) is not PowerState.OFF:
            return False, f"{device.name} has switched {self.what} off, but reports it on"
        self.open.discard(device.name)
        return True, f"{device.name} has switched {self.what} off and reports it off"
