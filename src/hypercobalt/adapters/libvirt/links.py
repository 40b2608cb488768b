"""Opens and closes libvirt's connections, and translates its errors. Functions that block."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import libvirt

from hypercobalt.adapters.libvirt import inventory
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtRefusedError

# For a peer whose machine is gone: libvirt then breaks the connection after 5 s * (5 + 1).
_KEEPALIVE_S, _KEEPALIVE_COUNT = 5, 5


def connect(address: str) -> libvirt.virConnect:
    """Open a connection that breaks when its peer's machine goes.

    Raises:
        libvirt.libvirtError: the daemon cannot be reached, or refuses.
    """
    opened = libvirt.open(address)
    keep_alive(opened)
    return opened


def keep_alive(connection: libvirt.virConnect) -> None:
    """Have a connection break when its peer's machine goes."""
    # A driver inside this process needs none.
    inventory.has(lambda: connection.setKeepAlive(_KEEPALIVE_S, _KEEPALIVE_COUNT))


def is_alive(connection: libvirt.virConnect) -> bool:
    """Whether it can be used, as far as this end can see."""
    try:
        return bool(connection.isAlive())
    except libvirt.libvirtError:
        return False


def close(connection: libvirt.virConnect) -> None:
    """Close it, broken or not."""
    try:
        connection.close()
    except libvirt.libvirtError:
        return  # it is broken already


@contextmanager
def translated(what: str, connection: libvirt.virConnect) -> Generator[None]:
    """Raise libvirt's errors as those of the port.

    Args:
        what: the call, for the message.
        connection: that it is made on; while it stands, an error is an answer.
    """
    try:
        yield
    except libvirt.libvirtError as exc:
        error = LibvirtRefusedError if is_alive(connection) else LibvirtError
        raise error(f"{what}: {exc}") from exc
