"""Faults of a BMC: set by a command, read by the BMC at each request."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path


class BoardFault(StrEnum):
    """A way in which BMCs fail."""

    NONE = "none"
    SLOW = "slow"
    """Each answer takes `SLOW_SECONDS`; by IPMI, each answer about the power."""
    CONFLICT = "conflict"
    """Orders are refused, as during a firmware update: with 409, by IPMI with D1h; reads work."""
    DENIED = "denied"
    """The password is another one."""
    DEAD = "dead"
    """No answer at all."""
    DEAD_WITH_POWER = "dead-with-power"
    """No answer while its host is off: both hang on one supply."""
    LYING = "lying"
    """Reports Off and accepts orders, while the host runs on."""


SLOW_SECONDS = 2.0


class FaultFile:
    """The fault of one BMC, kept in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> BoardFault:
        try:
            return BoardFault(self._path.read_text())
        except FileNotFoundError:
            return BoardFault.NONE

    def write(self, fault: BoardFault) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(fault.value)
        new.replace(self._path)

    def forget(self) -> None:
        self._path.unlink(missing_ok=True)
