"""A launcher in a process of its own, whose guest does what it is told, and which can be killed.

`python -m tests.integration.virt.handler.obedient SOCKET [STATE]`: serves until Delete.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from hypercobalt.virt.wire import messages
from hypercobalt.virt.wire.messages import AnyCall, DomainReport
from hypercobalt.virt.wire.server import LauncherServer
from hypercobalt.vmi.phases import LifeCycle, LifeReason

_AFTER = {
    messages.Sync: DomainReport(LifeCycle.RUNNING, machine="pc-q35-7.2", emulated=True),
    messages.Shutdown: DomainReport(LifeCycle.SHUTOFF, LifeReason.SHUTDOWN),
    messages.Kill: DomainReport(LifeCycle.SHUTOFF, LifeReason.DESTROYED),
}


async def serve(socket: Path) -> None:
    over = asyncio.Event()

    async def answer(call: AnyCall) -> DomainReport | None:
        if isinstance(call, messages.Delete):
            over.set()
        elif report := _AFTER.get(type(call)):
            server.report(report)
        return None

    server = LauncherServer(answer, peers=(os.getuid(),))
    async with server.serve(socket):
        await over.wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
