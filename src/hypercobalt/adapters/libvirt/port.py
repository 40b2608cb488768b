"""What the rooms above use of libvirt: reads, events and changes, each with a deadline.

One fake implements all of it (`fake.py`); the contract tests hold it and the real one to the same.
Every call raises `LibvirtRefusedError` when libvirt refuses, `DomainHungError` when only the
domain's own emulator is silent, and `LibvirtError` when the outcome is unknown: no connection, a
connection that broke, no answer within the deadline.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Protocol

from hypercobalt.adapters.libvirt.events import Event
from hypercobalt.adapters.libvirt.model import (
    ControlInfo,
    DiskError,
    Domain,
    DomainCapabilities,
    DomainDocument,
    HostCapabilities,
    JobStats,
    MigrationOptions,
)
from hypercobalt.adapters.libvirt.statistics import BlockStats, DomainStats
from hypercobalt.errors import TransientError


class LibvirtError(TransientError):
    """A call to libvirt failed and its outcome is unknown; the message is libvirt's own."""


class LibvirtRefusedError(LibvirtError):
    """libvirt answered with an error; nothing was begun."""


class DiskInUseError(LibvirtRefusedError):
    """A domain was not started: another process, here or on another host, has one of its disks."""


class UnknownFieldError(LibvirtRefusedError):
    """A validated document has something that this libvirt does not know."""


class DomainHungError(LibvirtError):
    """A domain's emulator does not answer; the daemon and its other domains may."""


class Observe(Protocol):
    """Questions to a daemon. A domain that is gone is None, not an error."""

    async def capabilities(self) -> HostCapabilities:
        """What the host has. The first call may take a minute: libvirt then starts emulators."""
        ...

    async def domain_capabilities(self) -> DomainCapabilities:
        """What the driver can give a domain on this host; slow like `capabilities`."""
        ...

    async def domains(self, *, jobs: bool = False) -> tuple[Domain, ...]:
        """Every domain: active ones first, then inactive ones, each by name.

        Args:
            jobs: with the job of each active domain, read after its state; a domain that has gone
                in between is left out. Only then one hung emulator can hold up the list.
        """
        ...

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        """The job that the domain does now, or with `completed` its last one.

        libvirt keeps the last job while the domain runs here, and only if it succeeded: so of a
        migration on its destination. One that failed or was cancelled leaves nothing but a domain
        that runs on without a job; it may show as failed or cancelled for a moment before. The far
        end of a migration has an incoming job without statistics.

        Returns:
            None when the domain is gone or there is no such job.
        """
        ...

    async def stats(self) -> tuple[DomainStats, ...]:
        """Counters of all active domains, in one call."""
        ...

    async def document(self, uuid: str, *, running: bool = False) -> DomainDocument:
        """The whole document of a domain.

        Args:
            uuid: of the domain.
            running: as it runs, in the form that a migration carries; else as it is defined.
        """
        ...


class DomainProbes(Protocol):
    """Whether the domains of a host are well: what no event reports."""

    async def control_info(self, uuid: str) -> ControlInfo | None:
        """How the way to a domain's emulator is, without waiting for it; None while it is off.

        It shows an emulator as occupied only while some call waits for it, so call
        `block_stats` to find out.
        """
        ...

    async def block_stats(self, uuid: str) -> tuple[BlockStats, ...] | None:
        """Counters of the disks of one domain, by its emulator; None while it is off.

        While a call to its emulator is pending, no other is made: `DomainHungError`.
        """
        ...

    async def block_stats_of(self, uuids: Collection[str]) -> Mapping[str, tuple[BlockStats, ...]]:
        """The same of several domains in one call, by UUID, without those that are off.

        It calls each emulator, even one with a pending call, and waits for all: `DomainHungError`
        when one hangs, which `block_stats` of each finds.
        """
        ...

    async def disk_errors(self, uuid: str) -> tuple[DiskError, ...]:
        """The disks whose errors have paused a domain; with the limits of `block_stats`.

        QEMU lists a disk for some time after its domain was resumed.
        """
        ...

    async def agent_answers(self, uuid: str) -> bool | None:
        """Whether the guest's agent answers within 3 s; None without one, or while it is off."""
        ...


class Events(Protocol):
    """The state of a connection that is kept, and the events that come over it."""

    def events(self) -> AsyncGenerator[Event]:
        """Connection changes and domain events, in the order in which they happened.

        The first one is the present state of the connection, once the first attempt has ended.
        After `Connected` every event since the subscription follows: list then, and nothing is
        missed. Between `Disconnected` and `Connected` there are none. One reader at a time;
        close the generator to make way for the next.
        """
        ...


class Power(Protocol):
    """What lets a domain's guest run or not."""

    async def resume(self, uuid: str) -> None:
        """Resume a paused domain."""
        ...

    async def destroy(self, uuid: str) -> None:
        """End a domain's process, and wait for that; one that is off or gone is no error.

        libvirt kills an emulator that does not end by itself within 10 s; one that the kernel
        holds, as on lost storage, outlives that: `LibvirtRefusedError`.
        """
        ...


class GuestControl(Protocol):
    """What the owner of a daemon of its own does with the daemon's domains."""

    async def define(self, document: DomainDocument) -> None:
        """Define a domain, or replace its definition."""
        ...

    async def undefine(self, uuid: str) -> None:
        """Undefine a domain that is off, and keep its files; one that is gone is no error."""
        ...

    async def boot(self, uuid: str, *, paused: bool = False) -> None:
        """Start a domain that is off; with `paused` its guest waits for `resume`."""
        ...

    async def pause(self, uuid: str) -> None:
        """Pause a running domain."""
        ...

    async def resume(self, uuid: str) -> None:
        """Resume a paused domain."""
        ...

    async def reset(self, uuid: str) -> None:
        """Reset a running domain's machine, as by its button."""
        ...

    async def reboot(self, uuid: str) -> None:
        """Have the guest reboot by itself: by its agent if that answers, else by ACPI."""
        ...

    async def shutdown(self, uuid: str) -> None:
        """Have the guest shut down in the same way, and do not wait for that.

        A domain that is off or gone is no error.
        """
        ...

    async def destroy(self, uuid: str, *, graceful: bool = False) -> None:
        """End a domain's process, as `Power.destroy`; with `graceful` libvirt never kills it."""
        ...

    async def metadata(self, uuid: str, namespace: str) -> str | None:
        """The element of a namespace in a domain's metadata; None without one, or no domain.

        Args:
            uuid: of the domain.
            namespace: its URI.
        """
        ...

    async def set_metadata(self, uuid: str, namespace: str, prefix: str, element: str) -> None:
        """Put an element into a domain's metadata, in place of that of the same namespace.

        It counts for the domain as it runs, or as it is defined while it is off.

        Args:
            uuid: of the domain.
            namespace: its URI.
            prefix: of the namespace in the document.
            element: XML, without the namespace.
        """
        ...


class Marks(Protocol):
    """Files in the directories of a host's disks, as its libvirtd sees them."""

    async def mark(self, directory: str, name: str) -> None:
        """Put an empty file into a directory that exists."""
        ...

    async def has_file(self, directory: str, name: str) -> bool:
        """Whether such a file exists; False when the directory does not."""
        ...


class Control(Power, Marks, Protocol):
    """What changes a daemon's host, with the questions that only a change needs."""

    async def migrate(self, uuid: str, options: MigrationOptions) -> None:
        """Migrate a running or paused domain live, and wait for the end.

        The source daemon does it by itself: the migration goes on when this process ends.
        """
        ...

    async def abort(self, uuid: str) -> None:
        """Abort a domain's job; none is no error."""
        ...

    async def force_complete(self, uuid: str) -> None:
        """Let a migration pause the domain for as long as the rest of its memory needs."""
        ...

    async def boot(self, uuid: str) -> None:
        """Start a domain that is off, from its saved memory where it has some."""
        ...

    async def define(self, document: DomainDocument) -> None:
        """Define a domain, or replace its definition."""
        ...

    async def undefine(self, uuid: str) -> None:
        """Undefine a domain that is off, and keep its files; one that is gone is no error."""
        ...

    async def make_directory(self, directory: str) -> None:
        """Make a directory for disks where it is missing, and let migrations make files there."""
        ...

    async def delete_file(self, directory: str, name: str) -> None:
        """Delete a file; one that is gone is no error."""
        ...


class Libvirt(Observe, DomainProbes, Events, Power, Marks, Protocol):
    """The daemon of this host: connected at once, and again by itself whenever it is lost."""


class LibvirtSession(Observe, Events, GuestControl, Protocol):
    """A daemon that its user has started for itself, such as a launcher."""


class Daemon(Observe, Control, Protocol):
    """A daemon among many: connected by the first call, let go when it is not used."""

    async def close(self) -> None:
        """Close the connection."""
        ...


class Daemons(Protocol):
    """Daemons by their URIs."""

    def at(self, uri: str) -> Daemon:
        """The daemon with this URI.

        Raises:
            ConfigurationError: the URI cannot be used.
        """
        ...

    async def close(self) -> None:
        """Close all of their connections."""
        ...
