"""The BMC of one host of a lab, as a process of the machine: it lives while its host is dead.

python -m hypercobalt.lab.bmc DIRECTORY HOST
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from hypercobalt.apiserver.access import pki
from hypercobalt.lab.bmc.board import Board
from hypercobalt.lab.bmc.boards import Boards
from hypercobalt.lab.bmc.server import BmcServer
from hypercobalt.lab.host import Power
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.state import Layout


class HostChassis:
    """A host of a lab."""

    def __init__(self, data: Path, name: str) -> None:
        self._data, self._name = data, name
        self._host = Lab.find(data).host(name)

    def is_on(self) -> bool:
        return self._host.power is not Power.OFF

    def off(self) -> None:
        asyncio.run(self._host.crash())

    def on(self) -> None:
        if not self.is_on():
            asyncio.run(self._boot())

    async def _boot(self) -> None:
        lab = Lab.find(self._data)  # as it is by now
        await lab.up_host(lab.host(self._name))


def main() -> None:
    """Serve until the process is killed, with everything of the lab."""
    data, name = Path(sys.argv[1]), sys.argv[2]
    boards = Boards(Layout.at(data), Lab.find(data).state)
    board = Board(name, boards.password(), HostChassis(data, name), boards.fault(name).read)
    tls = pki.server_context(boards.certificates())
    BmcServer(board, boards.address(name), tls).serve_forever()


if __name__ == "__main__":
    main()
