"""The serial port of a guest: where its socket is, and that the guest's own pod listens there.

The socket lies in what a launcher may write, which may have been broken into. The way to it is gone
as that to the launcher's socket (`sockets`): no link is followed, and the process behind it has to
be of the launcher's user, in the pod's own control group.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from hypercobalt.runtime.relay import CHUNK, StreamBytes
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.sockets import opened_socket, pod_directory
from hypercobalt.virt.wire.client import CONNECTING, LauncherError
from hypercobalt.virt.wire.peers import credentials
from hypercobalt.vmi.domain.consoles import SERIAL_SOCKET
from hypercobalt.vmi.paths import PRIVATE_VOLUME

_MISSING: Final = "the guest has no serial port: spec.domain.devices.autoattachSerialConsole"


@asynccontextmanager
async def serial_port(
    places: LauncherPlaces, pod_uid: str, vmi_uid: str
) -> AsyncGenerator[StreamBytes]:
    """Connect to the serial port of a guest.

    Args:
        places: of all launchers.
        pod_uid: of the guest's pod.
        vmi_uid: of its VMI.

    Raises:
        LauncherError: there is none, nobody listens, or a process of another pod does.
    """
    try:
        with (
            pod_directory(places.pods, pod_uid, PRIVATE_VOLUME, vmi_uid) as directory,
            opened_socket(directory, SERIAL_SOCKET) as path,
        ):
            async with asyncio.timeout(CONNECTING):
                reader, writer = await asyncio.open_unix_connection(path, limit=CHUNK)
    except FileNotFoundError as exc:
        raise LauncherError(_MISSING) from exc
    except OSError as exc:  # a TimeoutError too
        raise LauncherError(f"{SERIAL_SOCKET}: {exc.strerror or 'nobody answers'}") from exc
    try:
        peer = credentials(writer)
        if peer.uid != places.user:
            raise LauncherError(f"{SERIAL_SOCKET}: opened by user {peer.uid}, not {places.user}")
        if problem := places.check(pod_uid, peer):
            raise LauncherError(f"{SERIAL_SOCKET}: {problem}")
        yield StreamBytes(reader, writer)
    finally:
        writer.transport.abort()
