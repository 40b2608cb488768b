"""The hosts, as the directory has them.

There is no service to switch off: no scheduler places virtual machines. A host is disabled while
its Hypervisor is in maintenance, and by `disable`, which this process remembers; nothing is moved
to one that is disabled or not ready.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hypercobalt.adapters.libvirt.port import Daemons
from hypercobalt.compute.direct.answers import translated
from hypercobalt.compute.direct.directory import Directory, Place
from hypercobalt.compute.direct.identity import REASON, answering, daemon_of
from hypercobalt.compute.direct.late_returns import LateReturns
from hypercobalt.compute.direct.remains import only_record, remains
from hypercobalt.compute.direct.returning import clean
from hypercobalt.compute.direct.witnesses import Witnesses
from hypercobalt.compute.errors import ComputeConflictError, RefusedError
from hypercobalt.compute.model import Host
from hypercobalt.compute.port import Fleet


class DirectHosts:
    """See `hypercobalt.compute.port.Hosts`."""

    def __init__(
        self,
        directory: Directory,
        daemons: Daemons,
        witnesses: Witnesses,
    ) -> None:
        self._directory, self._daemons, self._witnesses = directory, daemons, witnesses
        self._disabled: dict[str, str] = {}
        self._late = LateReturns(daemons, witnesses, self.all_places)

    async def fleet(self) -> Fleet:
        """Read the directory, which is in memory."""
        return _Known(self, {place.name: place for place in self._directory.places()})

    async def hindrance(self) -> str:
        """Return "": nothing stands between this process and the hosts."""
        return ""

    async def get(self, name: str, *, fresh: bool = False) -> Host | None:
        place = self.find(name)
        if place is None:
            return None
        if place.refused:
            raise RefusedError(f"host {place.name}: {place.refused}", reason=REASON)
        if not fresh:
            return self.host(place, place.domains)
        if place.fenced:
            return self.host(place, await self._remains(place))
        found = self.host(place, await self._domains(place))
        return replace(found, up=not found.forced_down)  # its libvirtd has just answered

    def host(self, place: Place, domains: frozenset[str]) -> Host:
        """Return a place as the port's `Host`, with those domains."""
        reason = self._disabled.get(place.name) or place.disabled
        return Host(
            name=place.name,
            hypervisor_id=place.id,
            service_id=place.id,
            enabled=not reason,
            disabled_reason=reason,
            up=place.up and not place.fenced_boot,
            forced_down=bool(place.fenced_boot),
            servers=tuple(sorted(domains)),
        )

    async def _domains(self, place: Place) -> frozenset[str]:
        """Return a host's domains from its libvirtd: the agent's report is some seconds old."""
        with answering(place):
            domains = await daemon_of(self._daemons, place).domains(jobs=True)
        return frozenset(domain.uuid for domain in domains if not domain.moving_in)

    async def _remains(self, place: Place) -> frozenset[str]:
        """Return the domains that have not left a dead host, out of its agent's last report."""
        with translated(f"host {place.name}"):
            others = self.others(place.name)
            left = await remains(self._witnesses, place, others)
        return left.uuids

    async def enable(self, host: Host) -> None:
        await self.take_back(host)
        self._disabled.pop(host.name, None)

    async def disable(self, host: Host, reason: str) -> None:
        self._disabled[host.name] = reason or "disabled"

    async def force_down(self, host: Host) -> None:
        """Check the proof in the status of its Hypervisor, which suffices."""
        place = self.find(host.name)
        if place is None or not place.fenced:
            raise ComputeConflictError(
                f"host {host.name} is not proven dead (status.fencing of its Hypervisor)"
            )

    async def take_back(self, host: Host) -> None:
        """Clean it; the record of its fencing is closed by whoever calls this."""
        place = self.find(host.name)
        if place is not None and place.fenced_boot:
            others = self.others(place.name)
            waiting = await clean(self._daemons, self._witnesses, others, place)
            self._late.check(place, waiting)

    async def unstored(self, host: Host) -> frozenset[str]:
        """See the port. Agents store the definitions of what is on their own hosts."""
        place = self.find(host.name)
        if place is None or not place.fenced:
            return frozenset()
        with translated(f"host {place.name}"):
            return await only_record(self._witnesses, place, self.others(place.name))

    async def remove(self, host: Host) -> None:
        place = self.find(host.name)
        if place is None:
            return
        with answering(place):
            domains = await daemon_of(self._daemons, place).domains(jobs=True)
        if domains:
            names = ", ".join(domain.name for domain in domains[:5])
            text = f"host {host.name} still has {len(domains)} virtual machines: {names}"
            raise RefusedError(text, reason="InUse")
        if moves := self._witnesses.records.incoming(place.name):
            named = ", ".join(move.server for move in moves[:5])
            text = f"host {host.name} has {len(moves)} incoming migrations: {named}"
            raise RefusedError(text, reason="InUse")
        self._disabled.pop(host.name, None)

    async def close(self) -> None:
        """Follow no host any longer that was taken back."""
        await self._late.close()

    def find(self, name: str) -> Place | None:
        """Return the host of exactly this name, or of its first label."""
        return _best(name, {place.name: place for place in self._directory.places()})

    def open_places(self) -> tuple[Place, ...]:
        """Return hosts that a domain may go to."""
        return tuple(
            place
            for place in self._directory.places()
            if not place.closed and place.name not in self._disabled
        )

    def all_places(self) -> tuple[Place, ...]:
        """Return every host."""
        return self._directory.places()

    def others(self, name: str) -> tuple[Place, ...]:
        """Return every host but one."""
        return tuple(place for place in self.all_places() if place.name != name)


@dataclass(frozen=True, slots=True)
class _Known:
    """See `hypercobalt.compute.port.Fleet`."""

    hosts: DirectHosts
    places: Mapping[str, Place]

    def get(self, name: str) -> Host | None:
        place = _best(name, self.places)
        return self.hosts.host(place, place.domains) if place and not place.refused else None


def _best(name: str, places: Mapping[str, Place]) -> Place | None:
    return places.get(name) or places.get(name.partition(".")[0])
