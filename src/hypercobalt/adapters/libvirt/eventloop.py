"""libvirt's event loop: one a process, on a thread of its own.

libvirt has one event loop implementation for the whole process, set before the first connection.
Its own (`virEventRegisterDefaultImpl`) on a thread is chosen over `libvirtaio`, which would tie all
connections of the process to one asyncio loop, take every packet of every connection through it,
and let a busy asyncio loop delay the answers to keepalive.
"""

from __future__ import annotations

import threading
from functools import cache

import libvirt

from hypercobalt.logs import get_logger

log = get_logger(__name__)


@cache
def ensure_running() -> None:
    """Start the loop, the first time; every connection needs it for its events."""
    # Otherwise libvirt writes each error to stderr besides raising it.
    libvirt.registerErrorHandler(_ignore, None)
    libvirt.virEventRegisterDefaultImpl()
    threading.Thread(target=_run, name="libvirt-events", daemon=True).start()


def _run() -> None:
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except libvirt.libvirtError as exc:
            log.error("libvirt_event_loop_failed", reason=str(exc))  # noqa: TRY400  no traceback


def _ignore(_context: None, _error: tuple[object, ...]) -> None: ...
