"""What the rooms above ask of libvirt: a port with two classes behind it, the real and the fake."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Protocol

from hypercobalt.adapters.libvirt.model import (
    Domain,
    DomainCapabilities,
    DomainStats,
    HostCapabilities,
    JobStats,
    Notice,
)
from hypercobalt.errors import TransientError


class LibvirtError(TransientError):
    """A call to libvirt failed or was not answered in time; its message is libvirt's own."""


class Libvirt(Protocol):
    """One daemon, connected to and connected to again by itself.

    Every call has a deadline and raises `LibvirtError` when there is no connection, when libvirt
    refuses, and when it does not answer in time. A domain that is gone is None, not an error.
    """

    def notices(self) -> AsyncGenerator[Notice]:
        """Connection changes and domain events, in the order in which they happened.

        The first notice is the present state of the connection, once the first attempt has ended.
        After `Connected` every event since the subscription follows: list then, and nothing is
        missed. Between `Disconnected` and `Connected` there are none. One reader at a time;
        close the generator to make way for the next.
        """
        ...

    async def capabilities(self) -> HostCapabilities:
        """What the host has."""
        ...

    async def domain_capabilities(self) -> DomainCapabilities:
        """What the driver can give a domain on this host."""
        ...

    async def domains(self) -> tuple[Domain, ...]:
        """Every domain: active ones first, then inactive ones, each by name."""
        ...

    async def job_stats(self, uuid: str, *, completed: bool = False) -> JobStats | None:
        """The job that the domain does now, or with `completed` its last one.

        libvirt keeps the last job while the domain runs here, and only if it succeeded: so of a
        migration on its destination. One that failed or was cancelled leaves nothing but a domain
        that runs on without a job; it may show as failed or cancelled for a moment before.

        Returns:
            None when the domain is gone or there is no such job.
        """
        ...

    async def stats(self) -> tuple[DomainStats, ...]:
        """Counters of all active domains, in one call."""
        ...
