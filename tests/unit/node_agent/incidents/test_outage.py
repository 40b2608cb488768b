"""An hour without the API server, in which instances crash."""

from __future__ import annotations

import asyncio

import pytest
from tests.unit.ha.signs import NOON, uuid
from tests.unit.node_agent.incidents.recovering import Recovering
from tests.unit.node_agent.incidents.server import Server

from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.errors import TransientError
from hypercobalt.ha.incidents.cases import InstanceRecord, State
from hypercobalt.ha.incidents.classify import classify
from hypercobalt.ha.incidents.history import record
from hypercobalt.ha.incidents.signals import Kind, Signal
from hypercobalt.runtime import FakeClock

pytestmark = [pytest.mark.asyncio, pytest.mark.looptime]

HOUR = 3600.0
CRASHES = (60.0, 1200.0, 3000.0)
SOON = 15.0
"""Seconds: the longest pause between two attempts, and a little more."""


async def test_crashes_of_an_hour_without_the_api_are_recovered_once_each_when_it_is_back() -> None:
    clock, server = FakeClock(NOON, source=asyncio.get_running_loop().time), Server()
    acting = Recovering(server, clock=clock)
    store, libvirt, config = acting.store, acting.libvirt, acting.config
    began = clock.monotonic()
    attempts: list[float] = []

    def away() -> None:
        attempts.append(clock.monotonic())
        raise TransientError("the API server does not answer")

    server.meanwhile = away
    uuids = [uuid(number) for number in range(10)]
    for who in uuids:
        store.put(InstanceRecord(uuid=who, name=who, state=State.RUNNING, start="1.1", domain_id=1))
        libvirt.put(Domain(who, who, True, DomainState.RUNNING, id=1))
    running = asyncio.create_task(acting.recoveries.run())
    crashed = uuids[: len(CRASHES)]
    for who, at in zip(crashed, CRASHES, strict=True):
        await asyncio.sleep(began + at - clock.monotonic())
        signal = Signal(kind=Kind.STOPPED_FAILED, instance=who, name=who, at=clock.now())
        libvirt.put(Domain(who, who, False, DomainState.SHUTOFF))
        before = store.get(who)
        store.put(record(before, signal, classify(signal, before, config), config))
    await asyncio.sleep(began + HOUR - clock.monotonic())
    assert (server.evictions, libvirt.calls.total()) == ({}, 0)
    assert len(attempts) < HOUR / 4, "pauses are 5 s on average, and vary"

    server.meanwhile = lambda: None
    await asyncio.sleep(SOON)
    running.cancel()

    made = [one.spec.instances for one in server.evictions.values()]
    assert sorted(made) == [(who,) for who in crashed]
