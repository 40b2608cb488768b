"""What the rooms above use of a fence device: read a host's power, switch it off and on.

A device may lie, or answer for another machine: code that takes its answer for a proof compares it
with the signs of life that the host gives afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Final, Protocol

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


def ways_off(readings: Iterable[tuple[str, PowerState | None]]) -> tuple[str, ...]:
    """The alternatives by which a host is off: every device of each reads it so.

    Args:
        readings: the alternative of each device, and its reading; None for no answer.
    """
    return tuple(way for way, states in _by_way(readings).items() if states == {PowerState.OFF})


def combined(readings: Iterable[tuple[str, PowerState | None]]) -> PowerState | None:
    """Whether a host is cut off, by what each of its devices reports; None where that is not known.

    Off needs every device of one alternative: a host with two power feeds runs on either. A device
    of another one contradicts nothing: an outlet is on while its host was switched off by its BMC.

    Args:
        readings: see `ways_off`.
    """
    readings = tuple(readings)
    if ways_off(readings):
        return PowerState.OFF
    return PowerState.ON if any(state is PowerState.ON for _, state in readings) else None


def _by_way(
    readings: Iterable[tuple[str, PowerState | None]],
) -> Mapping[str, set[PowerState | None]]:
    found: dict[str, set[PowerState | None]] = {}
    for way, state in readings:
        found.setdefault(way, set()).add(state)
    return found


class FenceFailure(StrEnum):
    """Why a call to a fence device gave no result."""

    TIMED_OUT = "TimedOut"
    """No answer, or none in time: the next call may be answered."""
    REFUSED = "Refused"
    """Refused until a person corrects the cause: wrong credentials, a missing right, an unknown
    outlet or system, a fence agent that is not installed."""
    FAILED = "Failed"
    """Anything else; fence agents distinguish causes by their texts only, and not always."""
    NOT_THE_HOSTS = "NotTheHosts"
    """The device has not proven that it switches this host: it was given no order."""


NEED_CORRECTION: Final = frozenset({FenceFailure.REFUSED, FenceFailure.NOT_THE_HOSTS})
"""Failures that a repetition does not mend."""


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

    @property
    def alternative(self) -> str:
        """Which way to cut its host off it belongs to: all devices of one way are needed."""
        ...

    @property
    def connection(self) -> str:
        """What two devices have in common of which one may lie for the other: one address."""
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
        """Order that, and return once the device has taken the order; read the state then."""
        ...

    async def on(self, *, within: timedelta) -> None:
        """Order that, and return once the device has taken the order; read the state then."""
        ...
