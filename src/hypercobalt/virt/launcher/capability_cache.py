"""What libvirt finds out about QEMU, once per host instead of once per pod.

libvirt starts each emulator to learn what that can do: 0.5 s without KVM, 9 s with it on a machine
whose CPUs differ. What it finds holds for the same binaries, kernel, user and devices, and libvirt
checks that itself. Each pod gets a copy: a file that pods share and may write would carry what a
launcher that was broken into puts there into all others.

Source: libvirt, src/qemu/qemu_capabilities.c (virQEMUCapsIsValid).
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.events import Connected
from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.reconnect import Pace
from hypercobalt.errors import TransientError
from hypercobalt.logs import get_logger
from hypercobalt.virt.launcher.libvirtd import DaemonPlace, SessionDaemon

log = get_logger(__name__)

_MOST: Final = 64
_LARGEST: Final = 4 * 1024**2  # bytes; a file has some 100 KiB
_SECONDS: Final = 60.0
_PACE: Final = Pace(patience=_SECONDS)  # the daemon answers nothing while it starts emulators


def copy_cache(source: Path, target: Path) -> int:
    """Copy a cache of capabilities, and return the number of files; nothing is no error."""
    try:
        files = sorted(source.glob("*.xml"))[:_MOST]
    except OSError:
        return 0
    copied = 0
    for file in files:
        with suppress(OSError):
            if not file.is_symlink() and file.is_file() and file.stat().st_size <= _LARGEST:
                target.mkdir(parents=True, exist_ok=True, mode=0o700)
                shutil.copyfile(file, target / file.name)
                copied += 1
    return copied


async def warm(directory: Path, drivers: Path) -> int:
    """Have a libvirtd find out what QEMU can do, and keep it in a directory.

    This process needs the user, the devices and the image that launchers will have, and somebody
    above it who reaps orphans.

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
            async with asyncio.timeout(_SECONDS), connect(daemon.uri, pace=_PACE) as session:
                async for event in session.events():
                    if isinstance(event, Connected):
                        break
                await session.domain_capabilities()
        except (TimeoutError, LibvirtError) as exc:
            raise TransientError(f"libvirtd does not describe QEMU: {exc}") from exc
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        found = copy_cache(place.cache, directory)
    log.info("capability_cache_made", directory=str(directory), files=found)
    return found
