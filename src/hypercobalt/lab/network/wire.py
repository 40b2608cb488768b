"""The cables of one host: to the management network, which may be slow or lossy, and to the rack.

A host that is cut off has none of them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab import processes
from hypercobalt.lab.commands import execute, run
from hypercobalt.lab.errors import LabError, LabRequestError
from hypercobalt.lab.network.data_cables import DataCables
from hypercobalt.lab.notify import spawn_ready

_SYS = Path("/sys/class/net")
_START = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class Wire:
    """The cable of one host; there is none while the host is off.

    Args:
        lab_id: of the lab.
        name: of the host.
        port: the machine's end of the host's veth pair.
        bridge: that it is plugged into.
        log: a file for what goes wrong.
        data: the cables of its bond.
    """

    lab_id: str
    name: str
    port: str
    bridge: str
    log: Path
    data: DataCables

    @property
    def role(self) -> str:
        """Role of the process of a bad cable."""
        return f"wire/{self.name}"

    @property
    def _pair(self) -> tuple[str, str]:
        """The veth pair between a bad cable and the bridge."""
        stem = self.port.removeprefix("vb-")
        return f"{stem}-r", f"{stem}-s"

    @property
    def is_cut(self) -> bool:
        """Whether the cable is pulled; False while the host is off."""
        try:
            flags = int((_SYS / self.port / "flags").read_text(), 16)
        except OSError:
            return False
        return not flags & 1

    @property
    def is_whole(self) -> bool:
        """Whether no cable is cut or bad."""
        bad = self.is_cut or (_SYS / self._pair[0]).exists()
        return not bad and not self.data.faults.read()

    async def cut(self) -> None:
        """Pull all cables: the host sees no carrier.

        Raises:
            LabError: the host is off.
        """
        self._check()
        await self._ip("set", self.port, "down")
        await self.data.apply(connected=False)

    async def restore(self) -> None:
        """Put all cables back: the management network's whole, data cables as they were.

        Raises:
            LabError: the host is off.
        """
        self._check()
        await self.clear()
        await self._ip("set", self.port, "master", self.bridge, "up")
        await self.data.apply(connected=True)

    async def worsen(self, *, delay: timedelta = timedelta(), loss_percent: float = 0) -> None:
        """Make every frame of the management network late, each way, and lose some.

        Args:
            delay: of each frame.
            loss_percent: of frames, 0 to 100.

        Raises:
            LabError: the host is off, or the values are none of a cable.
        """
        milliseconds = delay / timedelta(milliseconds=1)
        if not 0 <= milliseconds <= 10_000 or not 0 <= loss_percent <= 100:  # noqa: PLR2004
            raise LabRequestError(
                f"a cable's delay is 0 to 10000 ms and its loss 0 to 100 %, "
                f"not {milliseconds:g} ms and {loss_percent:g} %"
            )
        self._check()
        await self.clear()
        inner, outer = self._pair
        await self._ip("add", inner, "type", "veth", "peer", "name", outer)
        await self._ip("set", self.port, "nomaster", "up")
        await self._ip("set", inner, "master", self.bridge, "up")
        # Kept with the interface: what starts a process that died reads it there.
        await self._ip("set", outer, "up", "alias", f"{milliseconds:g} {loss_percent:g}")
        await self._relay((self.port, outer), f"{milliseconds:g}", f"{loss_percent:g}")

    @property
    def badness(self) -> tuple[str, ...]:
        """Milliseconds of delay and percent of loss of a bad cable; () for a good one, or none."""
        try:
            found = (_SYS / self._pair[1] / "ifalias").read_text().split()
        except OSError:
            return ()
        return tuple(found) if (_SYS / self.port).exists() else ()

    async def relay_again(self) -> None:
        """Start the process of a bad cable that died.

        Raises:
            LabError: it does not start.
        """
        if badness := self.badness:
            await self._relay((self.port, self._pair[1]), *badness)

    async def _ip(self, *arguments: str) -> None:
        await run("ip", "link", *arguments, env=processes.environment(self.lab_id))

    async def _relay(self, ends: tuple[str, str], *badness: str) -> None:
        await spawn_ready(
            (sys.executable, "-m", "hypercobalt.lab.network.relay", *ends, *badness),
            lab_id=self.lab_id,
            role=self.role,
            log=self.log,
            within=_START,
        )

    async def clear(self) -> None:
        """Take away what a bad cable needs, also when the host is off.

        Raises:
            LabError: the process does not end.
        """
        await processes.kill(self.lab_id, lambda process: process.role == self.role)
        if (_SYS / self._pair[0]).exists():
            await execute(("ip", "link", "delete", self._pair[0]))

    async def remove(self) -> None:
        """Take away all of the cable, when its host is off.

        Raises:
            LabError: the process of a bad cable does not end.
        """
        await self.clear()
        if (_SYS / self.port).exists():  # the kernel takes its time with a dead host's network
            await execute(("ip", "link", "delete", self.port))

    def _check(self) -> None:
        if not (_SYS / self.port).exists():
            raise LabError(f"host {self.name} is off: it has no cable")
