"""What is asked of the daemons of other hosts: a port with two classes behind it."""

from __future__ import annotations

from typing import Protocol

from hypercobalt.adapters.libvirt.port import LibvirtError
from hypercobalt.adapters.libvirt.remote.model import Definition, Guest, Way


class LibvirtRefusedError(LibvirtError):
    """libvirt has answered, and will not; nothing was begun."""


class Daemon(Protocol):
    """One daemon, connected to when it is asked.

    Every call has a deadline. It raises `LibvirtRefusedError` when libvirt says no, and
    `LibvirtError` when nothing is known of what became of it: no connection, no answer in time.
    """

    async def host_uuid(self) -> str:
        """The UUID of the daemon's host, lower case; "" when libvirt does not know it."""
        ...

    async def guests(self) -> tuple[Guest, ...]:
        """Every domain, by name."""
        ...

    async def migrate(self, uuid: str, way: Way) -> None:
        """Move a running or paused domain live, and wait for the end.

        The daemon that the domain leaves does it all by itself: it goes on when we are gone.
        """
        ...

    async def abort(self, uuid: str) -> None:
        """Stop a domain's job; none is no error."""
        ...

    async def hurry(self, uuid: str) -> None:
        """Let a migration stop the guest for as long as the rest of its memory needs."""
        ...

    async def resume(self, uuid: str) -> None:
        """Let a paused domain run on."""
        ...

    async def definition(self, uuid: str) -> Definition:
        """The whole definition of a domain."""
        ...

    async def define(self, definition: Definition) -> None:
        """Define a domain, or replace its definition."""
        ...

    async def undefine(self, uuid: str) -> None:
        """Forget a domain that is off, and keep its files; one that is gone is no error."""
        ...

    async def make_directory(self, directory: str) -> None:
        """Make a directory for disks where it is missing, and let migrations make files there."""
        ...

    async def mark(self, directory: str, name: str) -> None:
        """Put an empty file into a directory that exists."""
        ...

    async def has_file(self, directory: str, name: str) -> bool:
        """Whether such a file is there; also when the directory is not."""
        ...

    async def delete_file(self, directory: str, name: str) -> None:
        """Delete a file; one that is gone is no error."""
        ...

    async def close(self) -> None:
        """Let go of the connection."""
        ...


class Daemons(Protocol):
    """Daemons by their URIs."""

    def at(self, uri: str) -> Daemon:
        """The daemon with this URI.

        Raises:
            ConfigurationError: the URI is none that can be used.
        """
        ...

    async def close(self) -> None:
        """Let go of all of them."""
        ...
