"""The BMC of one machine, for any protocol: what it reports and switches, and its faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol
from uuid import UUID

from hypercobalt.lab.bmc.faults import BoardFault

USER: Final = "admin"


class Chassis(Protocol):
    """The machine that a BMC sits in. Calls block."""

    def is_on(self) -> bool:
        """Whether it has power and runs."""
        ...

    def off(self) -> None:
        """Cut the power at once."""
        ...

    def on(self) -> None:
        """Begin to boot."""
        ...


@dataclass(frozen=True, slots=True)
class Board:
    """One BMC.

    Args:
        name: of the computer system.
        uuid: of the computer system.
        password: of the user `admin`, at most 20 bytes: IPMI takes no more.
        chassis: what it switches.
        fault: what is wrong with it now.
    """

    name: str
    uuid: UUID
    password: str
    chassis: Chassis
    fault: Callable[[], BoardFault]

    def is_silent(self, fault: BoardFault) -> bool:
        """Whether it answers nothing at all."""
        dead = fault is BoardFault.DEAD
        return dead or (fault is BoardFault.DEAD_WITH_POWER and not self.chassis.is_on())

    def reports_on(self, fault: BoardFault) -> bool:
        """The power as it reports it."""
        return fault is not BoardFault.LYING and self.chassis.is_on()
