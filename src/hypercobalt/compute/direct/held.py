"""Definitions that live moves have brought to hosts whose agents have not stored them yet.

The agent of a source takes out what has left, and the agent of a target stores what has come. A
target that dies before that has no record of the domain, and neither has any other host. This
process holds the definition until then; what it holds ends with the process.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from hypercobalt.api.definitions import DomainDefinition, HostDefinitions

_REMEMBERED: Final = 1000
"""Directories; definitions name them, so a captured host has as many as it wants."""


class MarkedDirectories:
    """Directories in which this process has seen hosts' marks, the newest ones.

    To look for a mark makes libvirt read a whole directory.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], None] = {}  # in order

    def has(self, mark: str, directory: str) -> bool:
        """Whether a mark was seen in a directory."""
        return (mark, directory) in self._seen

    def add(self, mark: str, directory: str) -> None:
        """Remember that a mark is in a directory."""
        self._seen[mark, directory] = None
        if len(self._seen) > _REMEMBERED:
            del self._seen[next(iter(self._seen))]


class HeldDefinitions:
    """Definitions by the host that a domain has moved to."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[str, DomainDefinition]] = {}  # by UUID: a domain is on one host
        self._changes = 0
        self.marked = MarkedDirectories()

    def hold(self, uuid: str, host: str, definition: DomainDefinition) -> None:
        """Hold the definition of a domain that is on a host now."""
        self._held[uuid] = (host, definition)
        self._changes += 1

    def drop(self, uuid: str) -> None:
        """Hold the definition of a domain no longer."""
        self._held.pop(uuid, None)
        self._changes += 1

    def has(self, uuid: str, host: str) -> bool:
        """Whether the definition of a domain on a host is held."""
        return uuid in self._held and self._held[uuid][0] == host

    def added(self, host: str, stored: HostDefinitions) -> HostDefinitions:
        """Return what the agent of a host has stored, and what it has not stored yet."""
        more = {
            uuid: definition
            for uuid, (there, definition) in self._held.items()
            if there == host and uuid not in stored.domains
        }
        if not more:
            return stored
        version = stored.version and f"{stored.version}+{self._changes}"
        named = {uuid: name for uuid, name in stored.left_out.items() if uuid not in more}
        domains = {**stored.domains, **more}
        return replace(stored, domains=domains, left_out=named, version=version)
