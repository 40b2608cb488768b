"""The fleet, counted for the gates. Pure.

A census is made once of the whole fleet; the gates of one host then cost nothing that grows with
it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final


@dataclass(frozen=True, slots=True)
class HostState:
    """A host, as the census counts it.

    Args:
        name: of the Hypervisor.
        unwell: its Node is not Ready, or the host was recovered and is not back.
        evacuated: the operator's record proves it dead, and none of its instances is left.
        stale: it reports nothing new: Ready Unknown, or a silent agent.
        observed: its kubelet and its agent's Lease are known.
        since: since when it is unwell.
        recovering: number of instances that are being recovered from it, by a count that is not the
            host's own; None when the host is not being recovered.
        free_mib: memory for more instances; 0 where none are placed.
        domains: failure domains that it is in: `zone a`, `rack 7`.
    """

    name: str
    unwell: bool = False
    evacuated: bool = False
    stale: bool = False
    observed: bool = True
    since: datetime | None = None
    recovering: int | None = None
    free_mib: int = 0
    domains: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnwellHosts:
    """The hosts of a fleet or a domain that are unwell.

    Args:
        size: of the fleet or the domain.
        names: of them.
        evacuated: how many of them are proven dead and evacuated.
    """

    size: int = 0
    names: tuple[str, ...] = ()
    evacuated: int = 0

    def __str__(self) -> str:
        return f"{len(self.names)} of {self.size} hosts"

    @property
    def named(self) -> str:
        """Names of the first few of them."""
        more = len(self.names) - _NAMED
        first = ", ".join(self.names[:_NAMED])
        return f"{first} and {more} more" if more > 0 else first


_NAMED: Final = 5  # hosts in a message


@dataclass(frozen=True, slots=True)
class Census:
    """The fleet, counted."""

    total: int
    unwell: int
    stale: int
    observed: int
    free_mib: int
    since: tuple[datetime, ...]
    recovering: Mapping[str, int]
    domains: Mapping[str, UnwellHosts] = field(default_factory=dict[str, UnwellHosts])
    lost: UnwellHosts = field(default_factory=UnwellHosts)

    def with_recovering(self, recovering: Mapping[str, int]) -> Census:
        """Return the census with other hosts in recovery."""
        return replace(self, recovering=recovering)


def census(hosts: Iterable[HostState]) -> Census:
    """Count a fleet."""
    total = stale = observed = free = 0
    size, unwell = Counter[str](), list[HostState]()
    since, recovering = list[datetime](), dict[str, int]()
    for host in hosts:
        total += 1
        stale += host.stale
        observed += host.observed
        free += 0 if host.unwell else host.free_mib
        size.update(host.domains)
        if host.unwell:
            unwell.append(host)
            if host.since is not None:
                since.append(host.since)
        if host.recovering is not None:
            recovering[host.name] = host.recovering
    lost_in = defaultdict[str, list[HostState]](list)
    for host in unwell:
        for name in host.domains:
            lost_in[name].append(host)
    domains = {name: _lost(count, lost_in.get(name, ())) for name, count in size.items()}
    since.sort()
    return Census(
        total,
        len(unwell),
        stale,
        observed,
        free,
        tuple(since),
        recovering,
        domains,
        _lost(total, unwell),
    )


def _lost(size: int, unwell: Iterable[HostState]) -> UnwellHosts:
    hosts = tuple(unwell)
    return UnwellHosts(
        size, tuple(host.name for host in hosts), sum(host.evacuated for host in hosts)
    )
