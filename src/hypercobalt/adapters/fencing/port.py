"""What the rooms above use of a fence device: read a host's power, switch it off and on.

A device may lie, or answer for another machine: code that takes its answer for a proof compares it
with the signs of life that the host gives afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Protocol

from hypercobalt.errors import TransientError


class PowerState(StrEnum):
    """What a fence device reports of its host's power, or of its access to the storage."""

    ON = "on"
    OFF = "off"


class Cuts(StrEnum):
    """What a fence device cuts a host off from; its state is on where the host has that."""

    POWER = "power"
    STORAGE = "storage"
    """Its guests may run on; they cannot write."""


class FenceFailure(StrEnum):
    """Why a call to a fence device gave no result; for metrics, not for decisions."""

    TIMED_OUT = "TimedOut"
    UNCONFIRMED = "Unconfirmed"
    """The device took the order, but does not report the state that was ordered."""
    FAILED = "Failed"
    """Unreachable, wrong password, refused: fence agents distinguish these by their texts only."""
    NOT_THE_HOSTS = "NotTheHosts"
    """The device has not proven that it switches this host: it was given no order."""


class FenceError(TransientError):
    """A fence device gave no result. Whether it has done what was ordered is unknown.

    Args:
        message: device, action, and what it answered.
        failure: the kind.
    """

    def __init__(self, message: str, failure: FenceFailure) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of a fence device; never printed."""

    username: str = ""
    password: str = field(default="", repr=False)


class FenceDevice(Protocol):
    """One device that switches one host. Every call raises FenceError, at the deadline at last."""

    @property
    def name(self) -> str:
        """Kind and address, for people: `bmc 10.0.0.7`."""
        ...

    async def systems(self, *, within: timedelta) -> frozenset[str]:
        """The UUID of the system that it switches, in lower case.

        Several where the protocol leaves their byte order open; none where the device has none.
        """
        ...

    async def power(self, *, within: timedelta) -> PowerState:
        """Read the state."""
        ...

    async def off(self, *, within: timedelta) -> None:
        """Switch off and return once the device reports it; at once where it is off already."""
        ...

    async def on(self, *, within: timedelta) -> None:
        """Switch on and return once the device reports it; at once where it is on already."""
        ...
