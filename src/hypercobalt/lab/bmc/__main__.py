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
from hypercobalt.lab import processes, shared_mount
from hypercobalt.lab import state as records
from hypercobalt.lab.bmc.board import Board
from hypercobalt.lab.bmc.boards import Boards, Feed
from hypercobalt.lab.bmc.faults import BoardFault
from hypercobalt.lab.bmc.feeds import Feeds
from hypercobalt.lab.bmc.redfish import RedfishServer
from hypercobalt.lab.bmc.server import BmcServer
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.host import Host, HostPlace, HostPower
from hypercobalt.lab.state import Layout
from hypercobalt.lab.storage.faults import StorageFault


class HostChassis:
    """A host of a lab."""

    def __init__(self, data: Path, host: Host) -> None:
        self._data, self._host = data, host

    def is_on(self) -> bool:
        return self._host.power is not HostPower.OFF

    def off(self) -> None:
        asyncio.run(self._host.crash())

    def on(self) -> None:
        if not self.is_on():
            asyncio.run(self._boot())

    async def _boot(self) -> None:
        # All of the lab with its clients of the API: half a second of CPU, which few hosts need.
        from hypercobalt.lab.lab import Lab  # noqa: PLC0415 - slow

        lab = Lab.find(self._data)  # as it is by now
        await lab.up_host(lab.host(self._host.name))


class StoragePath:
    """The access of a host to the shared disks: off while it is denied."""

    def __init__(self, layout: Layout, host: Host) -> None:
        self._faults = shared_mount.faults(layout)
        self._machine = host.machine

    def is_on(self) -> bool:
        return self._faults.read().get(self._machine) is not StorageFault.DENY

    def off(self) -> None:
        self._faults.write(self._machine, StorageFault.DENY)

    def on(self) -> None:
        self._faults.write(self._machine, None)


def main() -> None:
    """Serve until the process is killed, with everything of the lab.

    Raises:
        LabError: there is no lab in the directory, or no such host in it.
    """
    data, name = Path(sys.argv[1]), sys.argv[2]
    layout = Layout.at(data)
    state = records.known(layout)
    if state is None:
        raise LabError(f"there is no lab in {layout.data}")
    oldest = processes.Oldest(state.id)
    host = Host(HostPlace(layout, state, oldest, ()), state.host(name))
    boards = Boards(layout, state, oldest)
    tls, password = pki.server_context(boards.certificates()), boards.password(name)
    uuid = host.identity.uuid
    storage = Board(name, uuid, password, StoragePath(layout, host), lambda: BoardFault.NONE)
    _serve_beside(RedfishServer(storage, boards.storage_address(name), tls))
    chassis = HostChassis(data, host)
    feeds = Feeds(chassis, tuple(Feed))
    for feed in Feed:
        fault = boards.outlet_fault(name, feed).read
        outlet = Board(name, uuid, password, feeds.outlet(feed), fault)
        _serve_beside(RedfishServer(outlet, boards.outlet_address(name, feed), tls))
    board = Board(name, uuid, password, chassis, boards.fault(name).read)
    BmcServer(board, boards.address(name), tls).serve_forever()


def _serve_beside(server: RedfishServer) -> None:
    threading.Thread(target=server.serve_forever, name="beside", daemon=True).start()


if __name__ == "__main__":
    main()
