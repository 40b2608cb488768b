"""The gates that must all be open before an automatic action on a host. Pure.

They keep one fault from becoming many: an observer that is cut off sees every host silent, a rack
switch takes a rack away, a bad update one host after the other. Each gate answers for any host at
any time, with its numbers. Percentages alone miss a rack in a large fleet and block a small one, so
limits are a percentage and a number, for the fleet and for each failure domain, and hosts that were
recovered already still count; but one that is proven dead and evacuated, where nothing can go wrong
any more, gives its place to one more host: a small fleet would never recover its second one.

A person opens the gates about many hosts for one boot of one host, by an annotation.

Source: medik8s node-healthcheck-operator (maxUnhealthy, storm cool-down); infra-operator
InstanceHA (threshold, cliff, domains).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import IntEnum, auto
from typing import Final

from hypercobalt.ha.host_failure.census import Census, UnwellHosts

CEILING: Final = 49
"""Percent of a fleet or domain: above it, the observer is wrong or a person is needed."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    """Limits of the gates.

    Args:
        max_unhealthy: percent of the fleet, and of each failure domain, rounded down; at least 1
            host, at most 49 percent.
        nodes: hosts that are recovered at the same time.
        instances: instances that are recovered at the same time; one host alone may have more.
        cliff: percent of the fleet, and at least `cliff_hosts` hosts, lost within `interval`.
        cliff_hosts: see there.
        interval: see `cliff`.
        hold: how long a cliff closes the gate.
        cool_down: how long recovery pauses at most after a gate about many hosts has opened again;
            see `storms`.
        contact: oldest contact with the API server that still counts.
    """

    max_unhealthy: int = 20
    nodes: int = 2
    instances: int = 200
    cliff: int = 30
    cliff_hosts: int = 3
    interval: timedelta = timedelta(seconds=30)
    hold: timedelta = timedelta(minutes=2)
    cool_down: timedelta = timedelta(minutes=5)
    contact: timedelta = timedelta(seconds=90)


@dataclass(frozen=True, slots=True)
class ObserverState:
    """How far the observations can be trusted.

    Args:
        leads: this process holds the lease of the election.
        contact: age of the last contact of each watch, by its kind; None: not read yet.
        compute: why the compute service cannot be used; "" when it has just been read.
        pauses: until when recovery pauses since a gate about many hosts was closed, by failure
            domain; `FLEET` for all hosts.
    """

    leads: bool
    contact: Mapping[str, timedelta | None]
    compute: str = ""
    pauses: Mapping[str, datetime] = field(default_factory=dict[str, datetime])


@dataclass(frozen=True, slots=True)
class GatedHost:
    """The host that an action would be taken on.

    Args:
        name: of the Hypervisor.
        domains: see `HostState`.
        instances: number of its instances.
        memory_mib: memory of all of them together.
        silenced: why no action may be taken on this host; "" for no reason.
        fence: why it could not be fenced; "" when it can, or need not be.
        boot: boot ID that the agent reported last; "" for none.
        opened: a person has opened the gates about many hosts for that boot.
    """

    name: str
    domains: tuple[str, ...]
    instances: int
    memory_mib: int
    silenced: str = ""
    fence: str = ""
    boot: str = ""
    opened: bool = False


FLEET: Final = ""
"""Stands for all hosts among the names of failure domains."""


class Closure(IntEnum):
    """Whether a gate about many hosts is closed, for whichever host."""

    OPEN = auto()
    BY_ONE = auto()
    """The gate would be open if any single one of the hosts were well."""
    BY_MANY = auto()
    """No single host could open it, and none has closed it."""


OPEN_GATES: Final = "kvm.cloud.sap/open-gates"
"""Annotation of a Hypervisor: a person opens the gates about many hosts for this boot of it."""


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate's answer.

    Args:
        name: from a closed set.
        passed: the gate is open.
        text: why, with the numbers.
        storm: the gate is about many hosts at once.
    """

    name: str
    passed: bool
    text: str
    storm: bool = False


def gates(
    subject: GatedHost, fleet: Census, observer: ObserverState, limits: GateLimits, now: datetime
) -> tuple[Gate, ...]:
    """Return every gate's answer for one host."""
    storm = (
        _everyone(fleet),
        _opened(_max_unhealthy(subject, fleet, limits), subject),
        _opened(_domains(subject, fleet, limits), subject),
        _opened(_cliff(fleet, limits, now), subject),
    )
    closed = not all(gate.passed for gate in storm)
    return (
        _observer(observer, limits),
        _compute(observer),
        Gate("Silenced", not subject.silenced, subject.silenced or "recovery is on for the host"),
        Gate("FenceSetUp", not subject.fence, subject.fence or "the host can be fenced"),
        _samples(fleet),
        *storm,
        _opened(_cool_down(subject, observer, now, closed=closed), subject, unless=closed),
        _in_flight(subject, fleet, limits),
        _capacity(subject, fleet),
    )


def closures(
    subject: GatedHost, fleet: Census, limits: GateLimits, now: datetime
) -> Mapping[str, Closure]:
    """Return how the gates about many hosts are closed: of the fleet, and of the host's domains."""
    # Every host that reports opens the gate about everyone.
    everyone = Closure.OPEN if fleet.stale < fleet.total else Closure.BY_ONE
    most = _most_at_once(fleet, limits, now)
    cliff = _closure(_is_cliff(most, fleet, limits), _is_cliff(most - 1, fleet, limits))
    found = {FLEET: max(everyone, cliff, _lost(fleet.lost, limits))}
    for name in subject.domains:
        found[name] = _lost(fleet.domains.get(name, UnwellHosts()), limits)
    return found


def _lost(lost: UnwellHosts, limits: GateLimits) -> Closure:
    beyond = len(lost.names) - _most(lost, limits)
    return _closure(beyond > 0, beyond > 1)


def _closure(closed: bool, without_one: bool) -> Closure:
    if not closed:
        return Closure.OPEN
    return Closure.BY_MANY if without_one else Closure.BY_ONE


def is_open(answers: Iterable[Gate]) -> bool:
    """Whether every gate is open."""
    return all(gate.passed for gate in answers)


SEPARATOR: Final = "; "
"""Between two gates' answers in a summary."""


def summary(answers: Iterable[Gate]) -> str:
    """Return every gate's answer, the closed gates first."""
    ordered = sorted(answers, key=lambda gate: gate.passed)
    return SEPARATOR.join(
        f"{gate.name} {'open' if gate.passed else 'closed'}: {gate.text}" for gate in ordered
    )


def allowed(size: int, limits: GateLimits) -> int:
    """Return how many hosts of a given number may be unwell."""
    return max(1, size * min(limits.max_unhealthy, CEILING) // 100)


def _observer(observer: ObserverState, limits: GateLimits) -> Gate:
    if not observer.leads:
        return Gate("Observer", False, "this operator does not hold its lease")
    for kind, age in observer.contact.items():
        if age is None or age > limits.contact:
            state = "is not established" if age is None else f"had no contact for {_s(age)}"
            text = f"the watch of {kind} {state}, at most {_s(limits.contact)} are allowed"
            return Gate("Observer", False, text)
    text = f"the lease is held, every watch had contact within {_s(limits.contact)}"
    return Gate("Observer", True, text)


def _compute(observer: ObserverState) -> Gate:
    text = observer.compute or "the compute service was just read"
    return Gate("ComputeService", not observer.compute, text)


def _samples(fleet: Census) -> Gate:
    text = f"{fleet.observed} of {fleet.total} hosts are observed, more than half are needed"
    return Gate("Samples", 2 * fleet.observed > fleet.total, text)


def _everyone(fleet: Census) -> Gate:
    text = f"{fleet.stale} of {fleet.total} hosts are silent"
    return Gate("NotEveryone", fleet.stale < fleet.total, text, storm=True)


def _max_unhealthy(subject: GatedHost, fleet: Census, limits: GateLimits) -> Gate:
    passed, text = _few_are_lost(fleet.lost, "", subject, limits)
    return Gate("MaxUnhealthy", passed, text, storm=True)


def _domains(subject: GatedHost, fleet: Census, limits: GateLimits) -> Gate:
    texts: list[str] = []
    for name in subject.domains:
        lost = fleet.domains.get(name, UnwellHosts())
        passed, text = _few_are_lost(lost, f" of {name}", subject, limits)
        if not passed:
            return Gate("FailureDomain", False, text, storm=True)
        texts.append(text)
    return Gate(
        "FailureDomain", True, ", ".join(texts) or "the host is in no failure domain", storm=True
    )


def _most(lost: UnwellHosts, limits: GateLimits) -> int:
    """Return how many hosts may be unwell, with those that are evacuated."""
    most = allowed(lost.size, limits)
    return max(most, min(most + 1, lost.size * CEILING // 100)) if lost.evacuated else most


def _few_are_lost(
    lost: UnwellHosts, of: str, subject: GatedHost, limits: GateLimits
) -> tuple[bool, str]:
    """Return whether so many hosts may be unwell, and the numbers; if not, also the names."""
    text = f"{lost}{of} are unhealthy, {_most(lost, limits)} are allowed"
    if lost.evacuated:
        text = f"{text}, {lost.evacuated} of them are dead and evacuated"
    if len(lost.names) <= _most(lost, limits):
        return True, text
    way = f"{OPEN_GATES}={subject.boot} of Hypervisor {subject.name}"
    return False, f"{text}: {lost.named}, bring them back or set the annotation {way}"


def _opened(gate: Gate, subject: GatedHost, *, unless: bool = False) -> Gate:
    """Return the gate, opened if a person has opened it."""
    if gate.passed or not subject.opened or unless:
        return gate
    return replace(gate, passed=True, text=f"{gate.text}, opened by the annotation {OPEN_GATES}")


def _most_at_once(fleet: Census, limits: GateLimits, now: datetime) -> int:
    """Return how many hosts were lost within one interval, at most."""
    recent = fleet.since[bisect_left(fleet.since, now - limits.hold) :]
    most, first = 0, 0
    for last, at in enumerate(recent):
        while at - recent[first] > limits.interval:
            first += 1
        most = max(most, last - first + 1)
    return most


def _is_cliff(number: int, fleet: Census, limits: GateLimits) -> bool:
    return number >= limits.cliff_hosts and 100 * number >= limits.cliff * fleet.total


def _cliff(fleet: Census, limits: GateLimits, now: datetime) -> Gate:
    most = _most_at_once(fleet, limits, now)
    text = (
        f"{most} of {fleet.total} hosts were lost within {_s(limits.interval)}, "
        f"{limits.cliff} % and at least {limits.cliff_hosts} close it for {_s(limits.hold)}"
    )
    return Gate("Cliff", not _is_cliff(most, fleet, limits), text, storm=True)


def _cool_down(subject: GatedHost, observer: ObserverState, now: datetime, *, closed: bool) -> Gate:
    if closed:
        return Gate("CoolDown", False, "a gate about many hosts is closed")
    about = (FLEET, *subject.domains)
    over = max((observer.pauses[one] for one in about if one in observer.pauses), default=None)
    if over is None:
        return Gate("CoolDown", True, "no gate about many hosts was closed")
    text = f"a gate about many hosts was closed, recovery pauses until {over:%Y-%m-%dT%H:%M:%SZ}"
    return Gate("CoolDown", now >= over, text)


def _in_flight(subject: GatedHost, fleet: Census, limits: GateLimits) -> Gate:
    others = {name: count for name, count in fleet.recovering.items() if name != subject.name}
    instances = sum(others.values()) + subject.instances
    text = (
        f"{len(others)} other hosts are being recovered, {limits.nodes} at once are allowed, "
        f"{instances} instances with this host, {limits.instances} are allowed"
    )
    few = len(others) < limits.nodes
    alone = not any(others.values())
    return Gate("InFlight", few and (alone or instances <= limits.instances), text)


def _capacity(subject: GatedHost, fleet: Census) -> Gate:
    mean = subject.memory_mib // subject.instances if subject.instances else 0
    text = (
        f"{fleet.free_mib} MiB are free on healthy hosts for {subject.memory_mib} MiB "
        f"in {subject.instances} instances"
    )
    return Gate("TargetCapacity", fleet.free_mib > 0 and fleet.free_mib >= mean, text)


def _s(span: timedelta) -> str:
    return f"{span.total_seconds():.0f} s"
