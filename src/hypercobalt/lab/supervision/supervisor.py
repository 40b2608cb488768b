"""The supervisor of a lab, as its commands see it: a process of the machine like the others."""

from __future__ import annotations

import sys
from typing import Final

from hypercobalt.lab import processes
from hypercobalt.lab.state import LabState, Layout

ROLE: Final = "supervisor"


class Supervisor:
    """The process that starts what dies."""

    def __init__(self, layout: Layout, state: LabState) -> None:
        self._layout, self._state = layout, state

    @property
    def is_running(self) -> bool:
        return bool(processes.find(self._state.id, ROLE))

    async def start(self) -> None:
        """Start it where it does not run.

        Raises:
            LabError: it ends at once.
        """
        if not self.is_running:
            await processes.spawn(
                (sys.executable, "-m", "hypercobalt.lab.supervision", str(self._layout.data)),
                lab_id=self._state.id,
                role=ROLE,
                log=self._layout.log / "supervisor.log",
            )

    async def end(self) -> None:
        """End it: what dies from now on stays dead.

        Raises:
            LabError: it does not end.
        """
        await processes.kill(self._state.id, lambda process: process.role == ROLE)
