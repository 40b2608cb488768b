"""The small Linux that people log in to, in a QEMU of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from hypercobalt.lab.guest import image
from hypercobalt.lab.guest.probe import QEMU
from tests.waiting import Pause

pytestmark = pytest.mark.timeout(240)

_UNTIL_READY_S = 60


@contextlib.asynccontextmanager
async def linux(directory: Path) -> AsyncGenerator[tuple[asyncio.subprocess.Process, Path, Path]]:
    """A guest on QEMU's own network: its process, its serial console, its monitor."""
    guest = await image.ready()
    serial, monitor = directory / "serial", directory / "monitor"
    process = await asyncio.create_subprocess_exec(
        *(QEMU, "-accel", "tcg", "-nodefaults", "-no-user-config", "-display", "none", "-m", "128"),
        *("-kernel", str(guest.kernel), "-initrd", str(guest.linux)),
        *("-append", image.COMMAND_LINE),
        *("-chardev", f"socket,id=s,path={serial},server=on,wait=off", "-serial", "chardev:s"),
        *("-chardev", f"socket,id=m,path={monitor},server=on,wait=off", "-monitor", "chardev:m"),
        # No port of the machine is opened: the test asks from inside the guest.
        *("-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n"),
        "-S",
        stdin=asyncio.subprocess.DEVNULL,
    )
    try:
        pause = Pause()
        while not monitor.exists():
            await pause()
        yield process, serial, monitor
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def test_person_logs_in_to_the_linux_which_has_an_address_and_a_page(
    able_machine: None, tmp_path: Path
) -> None:
    async with linux(tmp_path) as (process, serial, monitor), asyncio.timeout(_UNTIL_READY_S):
        reader, writer = await asyncio.open_unix_connection(serial)
        _, keys = await asyncio.open_unix_connection(monitor)
        keys.write(b"cont\n")
        await reader.readuntil(b"guest login: ")
        writer.write(b"root\n")
        await reader.readuntil(b"# ")
        # The lease comes when it comes; the answer is told from the echo of its command.
        writer.write(b"until wget -qO- 127.0.0.1 2>/dev/null; do sleep 0.1; done; echo de''ne\n")
        page = await reader.readuntil(b"dene")
        keys.write(b"system_powerdown\n")

        assert b"guest has the address 10.0.2.15" in page
        assert await process.wait() == 0
        writer.close()
        keys.close()
