"""What the gates of other passes count while the write that shows it is under way."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import cast

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from tests.unit.operator.ha.made import ATTEMPT, FACTS, SETTINGS, hypervisor
from tests.unit.operator.samples import NOW

from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.ha.metrics import HaMetrics
from hypercobalt.operator.ha.model.facts import RecoveryFacts
from hypercobalt.operator.ha.observe import Observation, Sources
from hypercobalt.operator.ha.observing.fleet import CensusCache
from hypercobalt.operator.ha.observing.peers import Peers
from hypercobalt.operator.ha.reconciler import HostFailureReconciler
from hypercobalt.operator.shared.evictions import FINALIZER
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import FakeClock, Recorder

BEFORE = timedelta(hours=1)
FAILED = replace(ATTEMPT, phase=FencingPhase.FAILED, deadline=NOW - BEFORE)


class Site:
    """A dead host in maintenance `ha`, and everything that a pass over it reads and writes."""

    def __init__(self, fencing: Fencing | None) -> None:
        found = hypervisor(fencing, mode="ha")
        kept = replace(found.metadata, finalizers=(FINALIZER,))
        self.hypervisor: Hypervisor = replace(found, metadata=kept)
        self.kube = self.hypervisors = self
        self.fleet = CensusCache(list, FakeClock(), lambda _: 1)
        self.counted: list[set[str]] = []

    def as_manager(self, name: str) -> Site:
        return self

    def is_quiet(self, name: str) -> bool:
        return False

    async def facts(self, name: str, mine: datetime | None) -> RecoveryFacts:
        return dataclasses.replace(FACTS, hypervisor=self.hypervisor)

    async def modify(
        self, _type: type[Hypervisor], _name: str, change: Callable[[Hypervisor], Hypervisor]
    ) -> Hypervisor:
        return change(self.hypervisor)

    def turn(self, _name: str) -> asyncio.Lock:
        return asyncio.Lock()

    def wrote(self, obj: Hypervisor) -> Hypervisor:
        return obj

    async def put(self, stored: Hypervisor, part: Part) -> None:
        self.counted.append(set(self.fleet.census().recovering))

    def record(self, *about: object, **words: object) -> None:
        pass


def reconciler(site: Site) -> HostFailureReconciler:
    return HostFailureReconciler(
        cast("Sources", site),
        cast("Observation", site),
        cast("Peers", site),
        cast("StatusWriter", site),
        SETTINGS,
        guard=lambda: None,
        clock=FakeClock(),
        events=cast("Recorder", site),
        metrics=HaMetrics(CollectorRegistry()),
    )


@pytest.mark.parametrize(
    ("fencing", "counted"),
    [
        pytest.param(FAILED, {"kvm-a"}, id="another attempt: two of them would pass one gate"),
        pytest.param(None, {"kvm-a"}, id="the first attempt"),
        pytest.param(ATTEMPT, set[str](), id="an attempt that is stored"),
    ],
)
async def test_attempt_counts_before_it_is_written(
    fencing: Fencing | None, counted: set[str]
) -> None:
    site = Site(fencing)
    await reconciler(site).reconcile("kvm-a")
    assert site.counted == [counted]
    assert not site.fleet.census().recovering, "what is stored counts again"
