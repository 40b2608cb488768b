"""Has the agents of other hosts probe whether a program of a suspected host answers.

The request is an annotation of a few Hypervisors; their agents report in `status.peerReports`. So
no agent watches the fleet, and a request costs three writes. Requests are kept in memory only: a
new leader makes a new one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from hypercobalt.api.conditions import is_true
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.peers import PROBE, Probe, probes
from hypercobalt.errors import HypercobaltError
from hypercobalt.ha.node_failure import Question
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Clock, Kube
from hypercobalt.runtime.write_cache import WriteCache

log = get_logger(__name__)

MOST: Final = 3
"""Peers that probe one host."""

LASTS: Final = timedelta(minutes=2)
"""How long reports count; then the peers probe again."""

_Type = HypervisorConditionType


@dataclass(frozen=True, slots=True)
class _Request:
    at: datetime
    peers: tuple[str, ...]

    @property
    def id(self) -> str:
        return self.at.isoformat()


class Peers:
    """Requests probes, and collects the reports.

    Args:
        kube: writes the annotations.
        hypervisors: all there are.
    """

    def __init__(self, kube: Kube, hypervisors: WriteCache[Hypervisor], clock: Clock) -> None:
        self._kube, self._hypervisors, self._clock = kube, hypervisors, clock
        self._requests: dict[str, _Request] = {}

    def question(self, name: str) -> Question | None:
        """The request about a host, with the reports so far; None without one that counts."""
        request = self._requests.get(name)
        # Its time is ahead of a clock that was set back: its wait would never be over.
        if request is None or not timedelta(0) <= self._clock.now() - request.at <= LASTS:
            return None
        reports = (
            report
            for peer in request.peers
            if (found := self._hypervisors.get(peer)) is not None
            for report in found.status.peerReports
        )
        mine = tuple(one for one in reports if (one.host, one.asked) == (name, request.id))
        return Question(request.at, request.peers, mine)

    async def request(self, suspect: Hypervisor) -> None:
        """Have a few healthy hosts probe one; a failed write counts as a peer that is silent."""
        name, address = suspect.metadata.name, suspect.status.internalIp or ""
        peers = choose(name, self._hypervisors.all()) if address else ()
        request = self._requests[name] = _Request(self._clock.now(), peers)
        log.info("probing_peers", hypervisor=name, peers=peers)
        probe = Probe(name, address, request.id)
        for peer in (*peers, *self._left_over(name, peers)):
            await self._write(peer, name, (probe,) if peer in peers else ())

    async def forget(self, name: str) -> None:
        """Take the question back, if there is one."""
        request = self._requests.pop(name, None)
        for peer in request.peers if request is not None else ():
            await self._write(peer, name, ())

    def _left_over(self, name: str, peers: tuple[str, ...]) -> list[str]:
        """Others that have an older request, of this process or of a leader before it."""
        others = (one for one in self._hypervisors.all() if one.metadata.name not in peers)
        return [
            one.metadata.name
            for one in others
            if PROBE in one.metadata.annotations and any(p.name == name for p in probes(one))
        ]

    async def _write(self, peer: str, name: str, new: tuple[Probe, ...]) -> None:
        """Replace the requests about a host on one peer."""

        def changed(found: Hypervisor) -> Hypervisor:
            notes = dict(found.metadata.annotations)
            left = (*(one for one in probes(found) if one.name != name), *new)
            notes[PROBE] = msgspec.json.encode(left).decode()
            if not left:
                del notes[PROBE]
            return replace(found, metadata=replace(found.metadata, annotations=notes))

        try:
            written = await self._kube.modify(Hypervisor, peer, changed)
        except HypercobaltError as error:
            log.warning("peer_not_probed", hypervisor=peer, error=str(error))
            return
        if written is not None:
            self._hypervisors.wrote(written)


def choose(name: str, hypervisors: Iterable[Hypervisor]) -> tuple[str, ...]:
    """A few hosts whose agents report, spread over the fleet, the same for the same host."""
    able = (
        one.metadata.name
        for one in hypervisors
        if one.metadata.name != name
        and is_true(one.conditions, _Type.AGENT_REPORTING)
        and is_true(one.conditions, _Type.NODE_HEALTHY)
    )
    return tuple(sorted(able, key=lambda one: _spread(name, one))[:MOST])


def _spread(name: str, peer: str) -> bytes:
    return hashlib.sha256(f"{name} {peer}".encode()).digest()
