"""Signals in any order, repeated or missing, give one Eviction for a key in bounded memory."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.ha.signs import NODE, NOON, PLENTY, uuid

from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import (
    MOST_DISKS,
    MOST_EVIDENCE,
    MOST_TIMES,
    InstanceRecord,
    State,
    Step,
)
from hypercobalt.ha.incidents.classify import classify
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.escalation import plan, recovering
from hypercobalt.ha.incidents.history import record
from hypercobalt.ha.incidents.holding import held, released
from hypercobalt.ha.incidents.probes import InstanceProbe, probed, resumed
from hypercobalt.ha.incidents.restraint import Restraint
from hypercobalt.ha.incidents.signals import HOST, Kind, Signal

CONFIG = HaConfig()
BUSY = Restraint("maintenance: auto")


@dataclass(frozen=True)
class Happening:
    """A signal, after a wait, so many times; and whether what follows from it is done.

    Args:
        state: as a look finds the instance.
        done: the API answered: the Evictions are known to be made.
        held: the host is in maintenance.
    """

    number: int
    kind: Kind
    action: str
    disk: int
    domain_id: int
    wait: float
    copies: int
    state: State
    storage: bool | None
    done: bool
    held: bool


HAPPENINGS = st.lists(
    st.builds(
        Happening,
        st.integers(0, 3),
        st.sampled_from(list(Kind)),
        st.sampled_from(["", "pause", "report", "reset", "poweroff", "none", "fatal", "inject"]),
        st.integers(0, 40),
        st.integers(-1, 3),
        st.sampled_from([0.0, 0.01, 0.4, 2.5, 11.0, 65.0, 700.0]),
        st.integers(1, 3),
        st.sampled_from(list(State)),
        st.sampled_from([True, False, None]),
        st.booleans(),
        st.booleans(),
    ),
    max_size=60,
)


@dataclass
class World:
    """A host whose agent sees it all.

    Attributes:
        names: of the Evictions that may have been made, by instance and incident.
    """

    now: datetime = NOON
    known: dict[str, InstanceRecord] = field(default_factory=dict[str, InstanceRecord])
    names: defaultdict[tuple[str, str], set[str]] = field(
        default_factory=lambda: defaultdict[tuple[str, str], set[str]](set)
    )

    def happen(self, one: Happening) -> None:
        self.now += timedelta(seconds=one.wait)
        who = HOST if one.kind is Kind.MEMORY_FAILURE else uuid(one.number)
        for _ in range(one.copies):
            before = self.known.get(who) or InstanceRecord(uuid=who)
            signal = Signal(
                kind=one.kind,
                instance=who,
                name="vm",
                at=self.now,
                domain_id=one.domain_id,
                action=one.action,
                about=f"/pool{one.disk % 2}/{one.disk}",
                seconds=61,
            )
            verdict = classify(signal, before, CONFIG)
            self.known[who] = record(before, signal, verdict, CONFIG)
        self._look(InstanceProbe(state=one.state, storage=one.storage, quiet_seconds=60))
        if not one.held:
            self._release(one.state)
        self._recover(done=one.done, is_held=one.held)

    def _release(self, state: State) -> None:
        for who, instance in list(self.known.items()):
            for case in instance.cases:
                if case.step is Step.HELD and case.due is not None and case.due <= self.now:
                    self.known[who] = released(self.known[who], case, state, CONFIG, self.now)

    def _look(self, probe: InstanceProbe) -> None:
        for who, instance in list(self.known.items()):
            for case in instance.cases:
                if case.due is None or case.due > self.now:
                    continue
                if case.step is Step.PROBE:
                    self.known[who] = probed(self.known[who], case, probe, CONFIG, self.now)
                elif case.step is Step.RESUME:
                    self.known[who] = resumed(self.known[who], case, self.now)

    def _recover(self, *, done: bool, is_held: bool) -> None:
        planned = plan(self.known, NODE, CONFIG, self.now, PLENTY)
        self.known = planned.instances
        for recovery in planned.recoveries:
            for who, case_id in recovery.cases:
                if is_held:
                    self.names.pop((who, case_id), None)
                    self.known[who] = held(self.known[who], case_id, BUSY, self.now)
                    continue
                self.names[who, case_id].add(recovery.name)
                if done:
                    self.known[who] = recovering(self.known[who], case_id, self.now)

    def check(self) -> None:
        assert all(len(names) == 1 for names in self.names.values())
        for instance in self.known.values():
            assert len(instance.cases) <= len(IncidentType)
            assert len({case.id for case in instance.cases}) == len(instance.cases)
            assert all(len(case.evidence) <= MOST_EVIDENCE for case in instance.cases)
            assert len(instance.disks) <= MOST_DISKS
            assert len(instance.incidents) <= CONFIG.limits.incidents_per_minute
            for times in (instance.crashes, instance.reboots, instance.watchdogs):
                assert len(times) <= MOST_TIMES
            day = [at for at in instance.recoveries if self.now - at < timedelta(days=1)]
            assert len(day) <= CONFIG.limits.recoveries_per_day


@settings(max_examples=200)
@given(HAPPENINGS)
def test_no_order_gives_an_incident_two_evictions(history: list[Happening]) -> None:
    world = World()
    for one in history:
        world.happen(one)
        world.check()
