"""The launcher's process, below the first one: its libvirtd, its connection, its signals."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Final

from hypercobalt import logs
from hypercobalt.adapters.disks.qemu_img import QemuImg
from hypercobalt.adapters.libvirt.connection import connect
from hypercobalt.adapters.libvirt.reconnect import ConnectionPace
from hypercobalt.errors import ConfigurationError, HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.virt.launcher.capability_cache import copy_cache
from hypercobalt.virt.launcher.launcher import Launcher
from hypercobalt.virt.launcher.libvirtd import DaemonPlace, SessionDaemon
from hypercobalt.virt.launcher.settings import LauncherSettings, decode_settings

log = get_logger(__name__)

_PACE: Final = ConnectionPace(
    heartbeat=20.0, patience=10.0, first_wait=0.02, longest_wait_local=0.1
)
"""A daemon that dies closes its socket; only one that hangs is noticed by the heartbeat."""


def main(text: str) -> int:
    """Run a launcher with settings; return the exit code, 2 for settings that cannot be used."""
    logs.configure()
    try:
        settings = decode_settings(text)
        logs.configure(level=settings.log_level)
        return asyncio.run(_run(settings))
    except HypercobaltError as error:
        log.critical("launcher_failed", error=str(error))
        return 2 if isinstance(error, ConfigurationError) else 1


async def _run(settings: LauncherSettings) -> int:
    place = DaemonPlace.within(settings.paths)
    if settings.cache:
        copy_cache(Path(settings.cache), place.cache)
    daemon = SessionDaemon(place, Path(settings.drivers))
    running = asyncio.create_task(daemon.run(), name="libvirtd")
    try:
        async with connect(daemon.uri, pace=_PACE) as session:
            launcher = Launcher(settings, session, QemuImg())
            loop = asyncio.get_running_loop()
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT):
                loop.add_signal_handler(number, launcher.signalled)
            over = asyncio.create_task(launcher.run(), name="launcher")
            await asyncio.wait({over, running}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            return await over
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
