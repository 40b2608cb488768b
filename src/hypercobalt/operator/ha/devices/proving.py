"""A fence device that answers and switches nothing before it has proven that it is the host's.

A reading counts as little as an order: "off" of another host's device is no proof of death.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Final, NamedTuple

from hypercobalt.adapters.fencing.port import FenceDevice, FenceError, FenceFailure, PowerState
from hypercobalt.logs import get_logger

log = get_logger(__name__)

LONGEST: Final = timedelta(seconds=10)
"""Time to read the UUID, out of the first call's time; at most half of that."""

Refusal = Callable[[frozenset[str], str], str]
"""Returns why the device must not be used, by its reported UUIDs, or why it reports none."""


class ProvenDevice:
    """A `FenceDevice` that has to prove its host once, before its first call.

    Args:
        device: the device that is called.
        refusal: see `Refusal`; None where it need not prove anything.
    """

    def __init__(self, device: FenceDevice, refusal: Refusal | None) -> None:
        self._device, self._refusal = device, refusal

    @property
    def name(self) -> str:
        return self._device.name

    @property
    def alternative(self) -> str:
        return self._device.alternative

    @property
    def connection(self) -> str:
        return self._device.connection

    async def systems(self, *, within: timedelta) -> frozenset[str]:
        return await self._device.systems(within=within)

    async def power(self, *, within: timedelta) -> PowerState:
        return await self._device.power(within=await self._prove(within))

    async def off(self, *, within: timedelta) -> None:
        await self._device.off(within=await self._prove(within))

    async def on(self, *, within: timedelta) -> None:
        await self._device.on(within=await self._prove(within))

    async def _prove(self, within: timedelta) -> timedelta:
        """Check the device, and return the time that is left.

        Raises:
            FenceError: the device is another host's, or does not prove that it is not.
        """
        if self._refusal is None:
            return within
        began = asyncio.get_running_loop().time()
        read = await read_systems(self._device, min(within / 2, LONGEST))
        if why := self._refusal(read.found, read.unread):
            failure = read.failure or FenceFailure.NOT_THE_HOSTS
            raise FenceError(f"{self.name}: not used: {why}", failure)
        self._refusal = None
        took = timedelta(seconds=asyncio.get_running_loop().time() - began)
        return max(within - took, timedelta(0))


class Systems(NamedTuple):
    """Result of reading whose a device is.

    Args:
        found: the UUIDs that it may mean.
        unread: why they could not be read; "" where they were.
        failure: the kind of that; None where they were read.
    """

    found: frozenset[str]
    unread: str = ""
    failure: FenceFailure | None = None


async def read_systems(device: FenceDevice, within: timedelta) -> Systems:
    """Read the UUIDs that a device may mean."""
    began = asyncio.get_running_loop().time()
    try:
        read = Systems(await device.systems(within=within))
    except FenceError as error:
        read = Systems(frozenset(), str(error), error.failure)
    seconds = round(asyncio.get_running_loop().time() - began, 2)
    log.info("fence_device_identified", device=device.name, seconds=seconds, problem=read.unread)
    return read
