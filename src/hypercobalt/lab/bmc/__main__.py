"""The BMC of one host of a lab, as a process of the machine: it lives while its host is dead.

Beside it, and whatever is wrong with the BMC, what cuts that host off from the shared disks: a
computer system of its own, which is on while the host reaches them. And one for the outlet of each
power feed of the host.

python -m hypercobalt.lab.bmc DIRECTORY HOST
"""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path

from hypercobalt import pki
from hypercobalt.lab import shared_mount
from hypercobalt.lab.bmc.board import Board
from hypercobalt.lab.bmc.boards import Boards, Feed
from hypercobalt.lab.bmc.faults import BoardFault
from hypercobalt.lab.bmc.feeds import Feeds
from hypercobalt.lab.bmc.redfish import RedfishServer
from hypercobalt.lab.bmc.server import BmcServer
from hypercobalt.lab.host import Power
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.state import Layout
from hypercobalt.lab.storage.faults import StorageFault


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


class StoragePath:
    """The access of a host to the shared disks: off while it is denied."""

    def __init__(self, data: Path, name: str) -> None:
        self._faults = shared_mount.faults(Layout.at(data))
        self._machine = Lab.find(data).host(name).machine

    def is_on(self) -> bool:
        return self._faults.read().get(self._machine) is not StorageFault.DENY

    def off(self) -> None:
        self._faults.write(self._machine, StorageFault.DENY)

    def on(self) -> None:
        self._faults.write(self._machine, None)


def main() -> None:
    """Serve until the process is killed, with everything of the lab."""
    data, name = Path(sys.argv[1]), sys.argv[2]
    boards = Boards(Layout.at(data), Lab.find(data).state)
    tls, password = pki.server_context(boards.certificates()), boards.password(name)
    uuid = Lab.find(data).host(name).identity.uuid
    storage = Board(name, uuid, password, StoragePath(data, name), lambda: BoardFault.NONE)
    _serve_beside(RedfishServer(storage, boards.storage_address(name), tls))
    host = HostChassis(data, name)
    feeds = Feeds(host, tuple(Feed))
    for feed in Feed:
        fault = boards.outlet_fault(name, feed).read
        outlet = Board(name, uuid, password, feeds.outlet(feed), fault)
        _serve_beside(RedfishServer(outlet, boards.outlet_address(name, feed), tls))
    board = Board(name, uuid, password, host, boards.fault(name).read)
    BmcServer(board, boards.address(name), tls).serve_forever()


def _serve_beside(server: RedfishServer) -> None:
    threading.Thread(target=server.serve_forever, name="beside", daemon=True).start()


if __name__ == "__main__":
    main()
