"""Recorded events of real hosts, replayed to the rules: one incident each, or none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.traces.domain_trace import Found, Side, load, names, steps
from tests.traces.trace import Recorded
from tests.unit.ha.signs import NODE, NOON, U1

from hypercobalt.adapters.libvirt.events import DomainEvent, EventKind
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.api.eviction import EvictionMode
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import InstanceRecord, State, Step
from hypercobalt.ha.incidents.classify import classify
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import AvailableMemory, plan, recovering
from hypercobalt.ha.incidents.history import record
from hypercobalt.ha.incidents.probes import InstanceProbe, probed
from hypercobalt.ha.incidents.signals import Signal
from hypercobalt.node_agent.incidents.translate import found, signal_of

CONFIG = HaConfig()
AUTO, COLD = EvictionMode.AUTO, EvictionMode.COLD


@dataclass(frozen=True)
class Fate:
    """The expected result of a record.

    Args:
        incident: the only one; None: there is none.
        mode: of the only Eviction within a minute of the last event; None: none is made.
        follows: an incident that the guest's reboot opens, besides.
    """

    incident: IncidentType | None = None
    mode: EvictionMode | None = None
    follows: IncidentType | None = None


FATES: dict[str, Fate] = {
    "boot": Fate(),
    "destroy": Fate(IncidentType.OUT_OF_BAND),
    "dies_unseen": Fate(IncidentType.CRASH, AUTO),
    "dump": Fate(IncidentType.CRASH, follows=IncidentType.REBOOTING),
    "full_report": Fate(IncidentType.IO_ERROR),
    "full_resumed": Fate(IncidentType.IO_ERROR),
    "full_stop": Fate(IncidentType.IO_ERROR),
    "guest_reset": Fate(IncidentType.REBOOTING),
    "host_reboots": Fate(IncidentType.ENDED_BY_BOOT, AUTO),
    "host_reset": Fate(IncidentType.REBOOTING),
    "hung": Fate(),  # no event: tests of the probes
    "killed": Fate(IncidentType.CRASH, AUTO),
    "libvirtd_hung": Fate(),
    "libvirtd_killed": Fate(),
    "migrate": Fate(),
    "migration_cancelled": Fate(),
    "migration_fails": Fate(),
    "panic_destroy": Fate(IncidentType.CRASH, AUTO),
    "panic_preserve": Fate(IncidentType.CRASH, AUTO),
    "panic_restart": Fate(IncidentType.CRASH),
    "poweroff": Fate(),
    "restore": Fate(),
    "save": Fate(),
    "segfault": Fate(IncidentType.CRASH, AUTO),
    "suspend": Fate(),  # a report after ten minutes
    "watchdog_nmi": Fate(IncidentType.WATCHDOG, AUTO),
    "watchdog_none": Fate(IncidentType.WATCHDOG, AUTO),
    "watchdog_pause": Fate(IncidentType.WATCHDOG, AUTO),
    "watchdog_poweroff": Fate(IncidentType.WATCHDOG, AUTO),
    "watchdog_reset": Fate(IncidentType.WATCHDOG),
    "watchdog_shutdown": Fate(IncidentType.WATCHDOG),
}


class Played:
    """One host of a record, as its agent judges it."""

    def __init__(self, name: str, side: Side) -> None:
        self.instance = InstanceRecord(uuid=U1)
        self.incidents: set[str] = set()
        self.types: set[IncidentType] = set()
        self.modes: list[EvictionMode] = []
        self._same_boot = name != "host_reboots"
        self._after = side.after
        self._now = NOON
        for at, what in sorted(_happened(side), key=lambda one: one[0]):
            self._wait_until(NOON + timedelta(seconds=at))
            if isinstance(what, DomainEvent):
                if signal := signal_of(what):
                    self._take(signal)
            else:
                self._list(what)
        for _ in range(60):
            self._wait_until(self._now + timedelta(seconds=1))

    def _take(self, signal: Signal) -> None:
        verdict = classify(signal, self.instance, CONFIG)
        self._put(record(self.instance, signal, verdict, CONFIG))

    def _list(self, domain: Domain) -> None:
        for signal in found(domain, self.instance, self._now, same_boot=self._same_boot):
            self._take(signal)

    def _wait_until(self, now: datetime) -> None:
        self._now = now
        for case in self.instance.cases:
            if case.step is Step.PROBE and case.due is not None and case.due <= now:
                state = _state(_domain(self._after)) if self._after else self.instance.state
                self._put(probed(self.instance, case, InstanceProbe(state=state), CONFIG, now))
        planned = plan({U1: self.instance}, NODE, CONFIG, now, AvailableMemory(1 << 40))
        self._put(planned.instances[U1])
        for recovery in planned.recoveries:
            self.modes.append(recovery.mode)
            for _, case_id in recovery.cases:
                self._put(recovering(self.instance, case_id, now))

    def _put(self, instance: InstanceRecord) -> None:
        self.instance = instance
        for case in instance.cases:
            if case.shown or case.step is Step.RECOVER:
                self.incidents.add(case.id)
                self.types.add(case.type)


def _happened(side: Side) -> Iterable[tuple[float, DomainEvent | Domain]]:
    for event in side.events:
        yield (
            event.at,
            DomainEvent(
                kind=event.kind,
                uuid=U1,
                name="vm1",
                at=NOON + timedelta(seconds=event.at),
                type=event.type,
                detail=event.detail,
                reason=event.reason,
                domain_id=event.domain_id,
                path=event.path,
            ),
        )
    back = [link.at for link in side.links if not link.lost][1:]
    if back and side.after is not None:
        yield max(back), _domain(side.after)


def _state(domain: Domain) -> State:
    """The result of a probe of a domain that is as listed."""
    if not domain.active:
        return State.OFF
    if domain.state is DomainState.PAUSED:
        return State.PAUSED
    return State.OFF if domain.state is DomainState.CRASHED else State.RUNNING


def _domain(after: Found) -> Domain:
    state = DomainState(after.state)
    return Domain(U1, "vm1", after.id >= 0, state, reason=after.reason, id=after.id)


def test_every_record_has_a_fate() -> None:
    assert sorted(FATES) == names()


@pytest.mark.parametrize("name", names())
def test_a_recorded_fate_is_its_incident_or_none(name: str) -> None:
    trace, fate = load(name), FATES[name]

    played = Played(name, trace.host)

    assert played.types == {fate.incident, fate.follows} - {None}
    assert len(played.incidents) == len(played.types)
    assert played.modes == ([fate.mode] if fate.mode else [])


@pytest.mark.parametrize("name", [one for one in names() if load(one).target])
def test_the_target_of_a_migration_has_no_incident_whatever_comes_of_it(name: str) -> None:
    target = load(name).target
    assert target is not None
    played = Played(name, target)
    assert (played.incidents, played.modes) == (set(), [])


def _panics(side: Side) -> Iterable[tuple[Recorded, ...]]:
    """The events of a panic with the pause that comes with it: not at all, before it, after it."""
    paused = Recorded(at=0, kind=EventKind.LIFECYCLE, type=Lifecycle.SUSPENDED)
    rest = [e for e in side.events if (e.kind, e.type) != (paused.kind, paused.type)]
    (at,) = (n for n, e in enumerate(rest) if (e.kind, e.type) == (paused.kind, Lifecycle.CRASHED))
    paused = replace(paused, at=rest[at].at, domain_id=rest[at].domain_id)
    yield tuple(rest)
    yield (*rest[:at], paused, *rest[at:])
    yield (*rest[: at + 1], paused, *rest[at + 1 :])


@pytest.mark.parametrize("name", [one for one in names() if one.startswith("panic_")])
def test_the_pause_of_a_panic_changes_nothing_wherever_it_comes(name: str) -> None:
    side, fate = load(name).host, FATES[name]
    for events in _panics(side):
        played = Played(name, replace(side, events=events))
        assert (played.types, len(played.incidents)) == ({fate.incident}, 1)
        assert played.modes == ([fate.mode] if fate.mode else [])
        assert steps(events) == steps(side.events)
