"""Has the agents of other hosts probe whether a program of a suspected host answers.

The request is an annotation of a few Hypervisors; their agents report in `status.peerReports`. So
no agent watches the fleet, and a request costs three writes. Requests are kept in memory only: a
new leader makes a new one.

A peer may be captured. It counts only if the request names it, with its first report on that
request, and while it is beyond doubt itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

import msgspec
from msgspec.structs import replace

from hypercobalt.api.conditions import is_true
from hypercobalt.api.fencing import FencingPhase
from hypercobalt.api.hypervisor import Hypervisor, Maintenance
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType
from hypercobalt.api.peers import PROBE, PeerProbe, probes
from hypercobalt.errors import HypercobaltError
from hypercobalt.ha.host_failure.node_failure import PeerAnswer, Question
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
    """A request, and the first answer of each peer to it."""

    at: datetime
    peers: tuple[str, ...]
    answers: dict[str, PeerAnswer] = field(default_factory=dict[str, PeerAnswer])

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
        """Return the request about a host, with the reports so far; None if none counts."""
        request = self._requests.get(name)
        # Its time is ahead of a clock that was set back: its wait would never be over.
        if request is None or not timedelta(0) <= self._clock.now() - request.at <= LASTS:
            return None
        able = {
            peer: hypervisor
            for peer in request.peers
            if (hypervisor := self._able(peer)) is not None
        }
        for peer, hypervisor in able.items():
            self._take(request, name, peer, hypervisor)
        answers = (request.answers[peer] for peer in able if peer in request.answers)
        return Question(request.at, tuple(able), tuple(answers))

    def _able(self, peer: str) -> Hypervisor | None:
        hypervisor = self._hypervisors.get(peer)
        accused = peer in self._requests
        return (
            hypervisor if hypervisor is not None and is_able(hypervisor) and not accused else None
        )

    def _take(self, request: _Request, name: str, peer: str, reporter: Hypervisor) -> None:
        """Record the first report of a peer on a request; later reports are ignored."""
        if peer in request.answers:
            return
        key = (name, request.id)
        for report in reporter.status.peerReports:
            if (report.host, report.request) == key:
                text = "".join(c if c.isprintable() else "?" for c in report.evidence or "")
                request.answers[peer] = PeerAnswer(peer, report.answers, text)
                return

    async def request(self, suspect: Hypervisor) -> None:
        """Have a few healthy hosts probe one; a failed write counts as a peer that is silent."""
        name, address = suspect.metadata.name, suspect.status.internalIp or ""
        others = (
            hypervisor
            for hypervisor in self._hypervisors.all()
            if hypervisor.metadata.name not in self._requests
        )
        peers = choose(name, others) if address else ()
        request = self._requests[name] = _Request(self._clock.now(), peers)
        log.info("probing_peers", hypervisor=name, peers=peers)
        probe = PeerProbe(name, address, request.id)
        for peer in (*peers, *self._left_over(name, peers)):
            await self._write(peer, name, (probe,) if peer in peers else ())

    async def forget(self, name: str) -> None:
        """Take the question back, if there is one."""
        request = self._requests.pop(name, None)
        for peer in request.peers if request is not None else ():
            await self._write(peer, name, ())

    def _left_over(self, name: str, peers: tuple[str, ...]) -> list[str]:
        """Return other hosts with an older request, of this process or of a leader before it."""
        others = (
            hypervisor
            for hypervisor in self._hypervisors.all()
            if hypervisor.metadata.name not in peers
        )
        return [
            hypervisor.metadata.name
            for hypervisor in others
            if PROBE in hypervisor.metadata.annotations
            and any(p.name == name for p in probes(hypervisor))
        ]

    async def _write(self, peer: str, name: str, new: tuple[PeerProbe, ...]) -> None:
        """Replace the requests about a host on one peer."""

        def changed(present: Hypervisor) -> Hypervisor:
            notes = dict(present.metadata.annotations)
            left = (*(probe for probe in probes(present) if probe.name != name), *new)
            notes[PROBE] = msgspec.json.encode(left).decode()
            if not left:
                del notes[PROBE]
            return replace(present, metadata=replace(present.metadata, annotations=notes))

        try:
            async with self._hypervisors.turn(peer):
                written = await self._kube.modify(Hypervisor, peer, changed)
                if written is not None:
                    self._hypervisors.wrote(written)
        except HypercobaltError as error:
            log.warning("peer_not_probed", hypervisor=peer, error=str(error))


def choose(name: str, hypervisors: Iterable[Hypervisor]) -> tuple[str, ...]:
    """Choose a few hosts with live agents, spread over the fleet, the same for the same host."""
    able = (
        hypervisor.metadata.name
        for hypervisor in hypervisors
        if hypervisor.metadata.name != name and is_able(hypervisor)
    )
    return tuple(sorted(able, key=lambda peer: _spread(name, peer))[:MOST])


def is_able(peer: Hypervisor) -> bool:
    """Whether a host is beyond doubt itself, so that what it reports of others counts."""
    status = peer.status
    unwell = status.unhealthySince is not None or peer.spec.maintenance == Maintenance.HA
    fenced = peer.fencing is not None and peer.fencing.phase != FencingPhase.RELEASED
    well = is_true(peer.conditions, _Type.AGENT_REPORTING) and is_true(
        peer.conditions, _Type.NODE_HEALTHY
    )
    going = peer.metadata.deletionTimestamp is not None
    return well and not (unwell or fenced or going)


def _spread(name: str, peer: str) -> bytes:
    return hashlib.sha256(f"{name} {peer}".encode()).digest()
