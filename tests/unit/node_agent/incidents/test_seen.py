"""Incidents that a person has seen."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import cast

import pytest
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import U1

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.incident import SEEN, IncidentType, Severity
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.ha.incidents.cases import Case, InstanceRecord, Step
from hypercobalt.node_agent.incidents.seen import SeenIncidents, seen
from hypercobalt.node_agent.incidents.store import Store
from hypercobalt.runtime.observable import Observable
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)


def host(text: str) -> Hypervisor:
    return Hypervisor(metadata=ObjectMeta(name="kvm-a", annotations={SEEN: text}))


def found_off(step: Step = Step.NONE) -> InstanceRecord:
    case = Case("case-1", IncidentType.OUT_OF_BAND, Severity.WARNING, "1.1", NOON, NOON, step=step)
    return InstanceRecord(uuid=U1, cases=(case,))


@pytest.mark.parametrize("before", [True, False], ids=["annotated before", "annotated later"])
async def test_incident_that_a_person_has_seen_is_closed(*, before: bool) -> None:
    store, newest = Store(), Observable[Hypervisor | None](None)
    following = SeenIncidents(store, cast("Latest[Hypervisor]", newest))

    async def play() -> None:
        if before:
            newest.set(host(" case-1 , other"))
            store.put(found_off())
        else:
            store.put(found_off())
            newest.set(host("other"))
            newest.set(host("other,case-1"))
        await eventually(lambda: not store.get(U1).cases, seconds=1.5)

    await first(following.run(), play())


async def test_incident_with_a_next_step_stays_though_it_was_seen() -> None:
    store, newest = Store(), Observable[Hypervisor | None](host("case-1"))
    store.put(found_off(Step.RECOVER))
    following = SeenIncidents(store, cast("Latest[Hypervisor]", newest))

    async def play() -> None:
        store.put(InstanceRecord(uuid="other"))
        await eventually(lambda: "other" in store.known, seconds=1.5)

    await first(following.run(), play())
    assert len(store.get(U1).cases) == 1


def test_annotation_names_a_bounded_number_of_incidents() -> None:
    assert seen(host("a,,b , c")) == {"a", "b", "c"}
    assert seen(None) == frozenset()
    assert len(seen(host(",".join(map(str, range(1000)))))) == 20
