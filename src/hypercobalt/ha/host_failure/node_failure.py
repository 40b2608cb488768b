"""Judges the signs of a host: well, alive but unwell, suspected, rebooting, dead, or back. Pure.

Ready False is written by a living kubelet. Ready Unknown means only that its heartbeats stopped: a
dead host, a dead kubelet or a partition. So a host is a candidate for fencing only when nothing
there answers: neither kubelet nor agent nor compute service, and no program to its peers. A
kernel that answers is no sign of life: it answers for frozen programs, too.

A peer may be captured, and lie either way. What it reports decides nothing alone: at least two
peers must reach the host, and more peers than have not reached it. A peer that is contradicted is
named and not counted. A peer that no other could contradict only keeps the host from being switched
off: power that is off already is still a proof. That peers do not reach a host means nothing while
kubelet, agent or compute service answer.

Waits are counted from the stored `unhealthySince`, which neither a change between False and Unknown
nor another leader moves.

Source: Kubernetes, node lifecycle controller; medik8s node-healthcheck-operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final


class AgentLiveness(Enum):
    """State of the node agent, by its Lease."""

    ALIVE = auto()
    RELEASED = auto()
    """The agent stopped in good order: the host is shutting down, or its agent is updated."""
    SILENT = auto()
    UNKNOWN = auto()
    """The observer has not watched for long enough."""


@dataclass(frozen=True, slots=True)
class Waits:
    """How long signs must last.

    Args:
        dead: from `unhealthySince` until a host of which nothing answers may be fenced.
        live: from `unhealthySince` until the instances of a living host are moved away; longer
            while only the compute service shows that it lives, see `Signs.silence`.
        reboot: from `unhealthySince` until a host that was shutting down must be back.
        peers: for the answers of peers.
        healthy: from a host's return until it takes instances again.
    """

    dead: timedelta = timedelta(seconds=60)
    live: timedelta = timedelta(minutes=5)
    reboot: timedelta = timedelta(minutes=10)
    peers: timedelta = timedelta(seconds=10)
    healthy: timedelta = timedelta(minutes=2)


_LONGEST: Final = 120  # characters of what a peer reports


@dataclass(frozen=True, slots=True)
class PeerAnswer:
    """Answer of one peer to one question.

    Args:
        peer: name of the peer, as the operator has it.
        reached: a program of the host has answered.
        text: which program, in the words of the peer.
    """

    peer: str
    reached: bool
    text: str = ""

    def __str__(self) -> str:
        return f"{self.peer} ({self.text[:_LONGEST] or 'a program answers'})"


@dataclass(frozen=True, slots=True)
class Question:
    """A request to peers to probe a host.

    Args:
        sent: time of the request, which is also its name.
        peers: names of the trusted hosts that probe it; () when no host can.
        answers: the first answer of each peer to this request.
    """

    sent: datetime
    peers: tuple[str, ...] = ()
    answers: tuple[PeerAnswer, ...] = ()

    @property
    def reached(self) -> tuple[PeerAnswer, ...]:
        """Peers that reach the host."""
        return tuple(answer for answer in self.answers if answer.reached)

    @property
    def is_reached(self) -> bool:
        """Whether enough peers reach the host for that to count as a sign of life."""
        return len(self.reached) >= _ENOUGH and 2 * len(self.reached) > len(self.answers)

    @property
    def contradicted(self) -> tuple[PeerAnswer, ...]:
        """Peers that reach the host, but do not count, since others have not reached it."""
        missed = len(self.answers) > len(self.reached)
        return self.reached if missed and not self.is_reached else ()

    @property
    def alone(self) -> tuple[PeerAnswer, ...]:
        """The one peer that reaches the host when no other has answered."""
        missed = len(self.answers) > len(self.reached)
        return () if missed or self.is_reached else self.reached


_ENOUGH: Final = 2
"""Number of peers that must reach a host: one alone may be captured."""


@dataclass(frozen=True, slots=True)
class Signs:
    """Present signs of a host.

    Args:
        ready: status of the Node's condition Ready; "" when no kubelet has ever reported.
        node_boot: boot ID that the kubelet reported last; "" for none.
        boot: boot ID that the node agent reported last; "" for none.
        agent: by its Lease.
        compute: whether the host's compute service or libvirt daemon answers; None: not known.
        silence: how long the compute service may show a dead host as up.
        loops: the host has booted again and again recently.
        leaving: a shutdown of the host was under way when it fell silent.
        unhealthy_since: as stored; None when the host was well until now.
        fenced: boots that are proven dead; none for a host that does not count as dead.
        powered_since: since when the power of a host that is proven dead is on again; None as well
            once the host has reported since.
        question: the request to peers since the suspicion; None: none yet.
    """

    ready: str
    node_boot: str
    boot: str
    agent: AgentLiveness
    compute: bool | None
    silence: timedelta = timedelta(0)
    loops: bool = False
    leaving: bool = False
    unhealthy_since: datetime | None = None
    fenced: frozenset[str] = frozenset()
    powered_since: datetime | None = None
    question: Question | None = None


@dataclass(frozen=True, slots=True)
class Well:
    """No failure: nothing is wrong with the Node."""


@dataclass(frozen=True, slots=True)
class Alive:
    """The Node is not Ready, but the host lives: its instances may be moved, never fenced.

    Args:
        evidence: what shows that it lives.
        until: when its wait ends; None when it is over.
        movable: the host's compute service answers, so that live migration can work.
    """

    evidence: tuple[str, ...]
    until: datetime | None = None
    movable: bool = False


@dataclass(frozen=True, slots=True)
class Suspected:
    """Nothing of the host answers, but that does not suffice yet.

    Args:
        evidence: the silence.
        until: when to judge again; None when another sign has to be known first.
        probe: peers have to probe it now.
    """

    evidence: tuple[str, ...]
    until: datetime | None = None
    probe: bool = False


@dataclass(frozen=True, slots=True)
class RebootGrace:
    """The host may be booting, and has until then to come back.

    It was shutting down when it fell silent, or was switched on after it was proven dead.
    """

    evidence: tuple[str, ...]
    until: datetime


@dataclass(frozen=True, slots=True)
class Dead:
    """A candidate for fencing: nothing answers, and the waits are over. This is no proof of death.

    Args:
        evidence: the silence.
        reached_by: the one peer that reports otherwise, and that no other can contradict: the host
            may not be switched off.
    """

    evidence: tuple[str, ...]
    reached_by: str = ""


@dataclass(frozen=True, slots=True)
class Contradicted:
    """The boot that counts as dead lives: its proof was wrong."""

    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Returned:
    """The host is back with a boot other than the fenced one."""

    boot: str


HostVerdict = Well | Alive | Suspected | RebootGrace | Dead | Contradicted | Returned


def judge(signs: Signs, waits: Waits, now: datetime) -> HostVerdict:
    """Judge the signs of a host.

    Args:
        signs: of the host.
        waits: of the site.
        now: by the clock that `unhealthy_since` was taken from.
    """
    if signs.fenced and (life := _life_of_fenced(signs)):
        return Contradicted(life)
    if signs.ready in {"True", ""}:
        back = (
            signs.fenced and signs.agent is AgentLiveness.ALIVE and signs.boot not in signs.fenced
        )
        return Returned(signs.boot) if back else Well()
    since = min(signs.unhealthy_since or now, now)  # of a clock that has gone back: from now on
    if life := _life(signs, waits, now):
        until = since + (max(waits.live, signs.silence) if life == (_COMPUTE,) else waits.live)
        return Alive(life, until if now < until else None, movable=signs.compute is True)
    return _silent(signs, waits, since, now)


_COMPUTE: Final = "its compute service answers"


def _life_of_fenced(signs: Signs) -> tuple[str, ...]:
    """Return signs of life of the boot that counts as dead; one without an ID is another."""
    evidence: list[str] = []
    if signs.ready == "True" and signs.node_boot in signs.fenced:
        evidence.append(f"the kubelet of boot {signs.node_boot} reports Ready")
    renewed = signs.agent is AgentLiveness.ALIVE and signs.boot in signs.fenced
    if renewed and signs.node_boot in {"", *signs.fenced}:
        evidence.append(f"the node agent of boot {signs.boot} renews its Lease")
    return tuple(evidence)


def _life(signs: Signs, waits: Waits, now: datetime) -> tuple[str, ...]:
    """Return what shows that the host lives though its Node is not Ready."""
    evidence: list[str] = []
    if signs.ready == "False":
        evidence.append("the kubelet reports Ready False")
    if signs.agent is AgentLiveness.ALIVE:
        evidence.append("the node agent renews its Lease")
    if signs.compute:
        evidence.append(_COMPUTE)
    question = signs.question
    if question is not None and question.is_reached and _is_over(question, waits, now):
        evidence.extend(f"a peer reaches it: {peer}" for peer in question.reached)
    return tuple(evidence)


def _is_over(question: Question, waits: Waits, now: datetime) -> bool:
    """Whether all peers have answered or had time to answer: the first answers decide nothing."""
    return len(question.answers) >= len(question.peers) or now >= question.sent + waits.peers


def _silent(signs: Signs, waits: Waits, since: datetime, now: datetime) -> HostVerdict:
    evidence = _silence(signs)
    question = signs.question
    if question is None:
        return Suspected(evidence, probe=True)
    if signs.agent is AgentLiveness.UNKNOWN or signs.compute is None:
        return Suspected(evidence)
    dead = since if signs.loops else since + waits.dead
    asked = now if _is_over(question, waits, now) else question.sent + waits.peers
    until = max(dead, asked)
    if now < until:
        return Suspected(evidence, until)
    if signs.leaving and now < since + waits.reboot:
        return RebootGrace(evidence, since + waits.reboot)
    powered = min(signs.powered_since, now) if signs.powered_since is not None else None
    if powered is not None and now < powered + waits.reboot:
        return RebootGrace(evidence, powered + waits.reboot)
    return Dead(evidence, next((answer.peer for answer in question.alone), ""))


def _silence(signs: Signs) -> tuple[str, ...]:
    agent = {
        AgentLiveness.RELEASED: "the node agent has released its Lease",
        AgentLiveness.SILENT: "the node agent does not renew its Lease",
        AgentLiveness.UNKNOWN: "the node agent's Lease was not watched for long enough",
    }
    compute = {
        None: "the compute service could not be read",
        False: "its compute service does not answer",
    }
    evidence = [
        f"the Node is Ready {signs.ready}",
        agent.get(signs.agent, ""),
        compute.get(signs.compute, ""),
    ]
    if signs.question is not None:
        evidence.extend(_of_peers(signs.question))
    return tuple(text for text in evidence if text)


def _of_peers(question: Question) -> Iterator[str]:
    missed = len(question.answers) - len(question.reached)
    if not question.peers:
        yield "no other host can be probed"
    elif missed or not question.reached:
        yield f"{missed} of {len(question.peers)} peers have tried and not reached it"
    for answer in question.contradicted:
        yield f"{answer} alone reports that it answers, which does not count"
    for answer in question.alone:
        yield f"{answer} reports that it answers, and no other peer could check that"
