"""`python -m hypercobalt.virt.launcher.warm DIRECTORY [DRIVERS]`: make a host's capability cache.

It runs as a launcher pod does: with the user, the devices and the image that launchers will have.
libvirt waits for each emulator that it starts to be gone, so somebody above has to reap them.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypercobalt import logs
from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Connected
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.reconnect import ConnectionPace
from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.virt.launcher import first
from hypercobalt.virt.launcher.capability_cache import copy_cache
from hypercobalt.virt.launcher.libvirtd import DaemonPlace, SessionDaemon
from hypercobalt.virt.launcher.settings import DRIVERS

log = logs.get_logger(__name__)

_SECONDS: Final = 60.0
_PACE: Final = ConnectionPace(
    patience=_SECONDS
)  # the daemon answers nothing while it starts emulators


async def warm(directory: Path, drivers: Path) -> int:
    """Have a libvirtd find out what QEMU can do, and keep it in a directory.

    Args:
        directory: for the files, such as `LauncherSettings.cache`.
        drivers: directory of libvirt's drivers.

    Returns:
        How many emulators are described.

    Raises:
        TransientError: libvirtd does not answer.
        ConfigurationError: no libvirt is installed.
    """
    with TemporaryDirectory(prefix="hv") as scratch:
        place = DaemonPlace(Path(scratch, "private"), Path(scratch, "run/libvirt"))
        daemon = SessionDaemon(place, drivers)
        running = asyncio.create_task(daemon.run(), name="libvirtd")
        try:
            await _describe(daemon.uri)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        found = copy_cache(place.cache, directory)
    log.info("capability_cache_made", directory=str(directory), files=found)
    return found


async def _describe(uri: str) -> None:
    try:
        async with asyncio.timeout(_SECONDS), connect(uri, pace=_PACE) as session:
            async for event in session.events():
                if isinstance(event, Connected):
                    break
            await session.domain_capabilities()
    except (TimeoutError, LibvirtError) as exc:
        raise TransientError(f"libvirtd does not describe QEMU: {exc}") from exc


def _main() -> int:
    logs.configure()
    directory, drivers = (*sys.argv[1:], DRIVERS)[:2]
    try:
        return 0 if asyncio.run(warm(Path(directory), Path(drivers))) else 1
    except HypercobaltError as error:
        log.critical("capability_cache_not_made", error=str(error))
        return 1


if __name__ == "__main__":
    sys.exit(first.above(_main))
