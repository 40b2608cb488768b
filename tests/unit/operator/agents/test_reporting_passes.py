"""Passes over the Lease of a host's node agent: what is written, once, and which Events."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import cast

import pytest
from msgspec.structs import replace as with_fields
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.conditions import Condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.operator.agents.leases import AgentLeases, LeaseSighting, LeaseState
from hypercobalt.operator.agents.reporting import AgentReportingReconciler
from hypercobalt.operator.shared.status_writer import Part, StatusWriter
from hypercobalt.runtime import FakeClock, Kube, Recorder, Result
from hypercobalt.runtime.write_cache import WriteCache

NAME = "kvm-a"
BEFORE = NOW - timedelta(hours=1)
REPORTING = condition("AgentReporting", "True", "Reporting")
SILENT = condition("AgentReporting", "False", "AgentSilent")
CONNECTED = condition("LibVirtConnection", "True", "Connected")
RENEWED = LeaseSighting(LeaseState.RENEWED, "agents/node-agent-kvm-a", "7")
EXPIRED = replace(RENEWED, state=LeaseState.EXPIRED)
STILL_ABSENT = LeaseSighting(LeaseState.ABSENT, left=timedelta(seconds=9))


class Around:
    """All that the reconciler reads and writes, in memory."""

    def __init__(self, stored: Hypervisor | None, lease: LeaseSighting | None) -> None:
        self.stored, self.lease = stored, lease
        self.parts: list[Part] = []
        self.patched: list[tuple[Condition, ...]] = []
        self.events: list[str] = []

    def as_manager(self, _name: str) -> Around:
        return self

    def get(self, _name: str) -> Hypervisor | None:
        return self.stored

    def wrote(self, made: Hypervisor) -> None:
        self.stored = made

    async def of(self, _name: str) -> LeaseSighting | None:
        return self.lease

    async def put(self, _hypervisor: Hypervisor, part: Part) -> None:
        self.parts.append(part)

    async def patch_status(self, obj: Hypervisor, status: HypervisorStatus) -> Hypervisor:
        self.patched.append(status.conditions)
        return with_fields(obj, status=status)

    def record(self, _about: Hypervisor, type_: str, reason: str, *_: str, action: str) -> None:
        self.events.append(f"{type_} {reason}")

    def reconciler(self) -> AgentReportingReconciler:
        return AgentReportingReconciler(
            cast("Kube", self),
            cast("AgentLeases", self),
            cast("WriteCache[Hypervisor]", self),
            cast("StatusWriter", self),
            clock=FakeClock(NOW),
            events=cast("Recorder", self),
        )


def deleted(*finalizers: str) -> Hypervisor:
    of = hypervisor(REPORTING, CONNECTED)
    meta = with_fields(of.metadata, deletionTimestamp=NOW, finalizers=finalizers)
    return with_fields(of, metadata=meta)


@pytest.mark.parametrize(
    ("stored", "lease", "again"),
    [
        pytest.param(None, EXPIRED, None, id="the Hypervisor is gone"),
        pytest.param(deleted(), EXPIRED, None, id="it is being deleted"),
        pytest.param(hypervisor(SILENT), None, None, id="Leases cannot be read yet"),
        pytest.param(
            hypervisor(REPORTING), replace(EXPIRED, state=LeaseState.UNRENEWED), None, id="restart"
        ),
        pytest.param(hypervisor(REPORTING), STILL_ABSENT, 9, id="it may be made again"),
    ],
)
async def test_no_verdict_is_written_before_silence_is_certain(
    stored: Hypervisor | None, lease: LeaseSighting | None, again: int | None
) -> None:
    around = Around(stored, lease)
    result = await around.reconciler().reconcile(NAME)
    assert result == Result(timedelta(seconds=again) if again else None)
    assert (around.parts, around.patched, around.events) == ([], [], [])


@pytest.mark.parametrize(
    "stored",
    [hypervisor(REPORTING, CONNECTED), deleted("kvm.cloud.sap/lifecycle")],
    ids=["of a host that stays", "of one that leaves"],
)
async def test_silent_agent_is_shown(stored: Hypervisor) -> None:
    around = Around(stored, EXPIRED)
    assert await around.reconciler().reconcile(NAME) == Result()
    (part,) = around.parts
    assert part.types == {"AgentReporting"}
    assert [one.reason for one in part.conditions] == ["AgentSilent"]
    (patched,) = around.patched
    assert [one.reason for one in patched] == ["Reporting", "AgentSilent"]
    assert around.stored is not None
    assert around.stored.conditions == patched


async def test_time_of_the_transition_stays_while_the_status_does() -> None:
    since = with_fields(SILENT, lastTransitionTime=BEFORE)
    around = Around(hypervisor(since), EXPIRED)
    await around.reconciler().reconcile(NAME)
    assert around.parts[0].conditions[0].lastTransitionTime == BEFORE


async def test_conditions_of_a_silent_agent_are_replaced_once_for_each_state_of_its_lease() -> None:
    around = Around(hypervisor(REPORTING, CONNECTED), EXPIRED)
    reconciler = around.reconciler()
    for version, patches in (("7", 1), ("7", 1), ("8", 2)):
        around.lease = replace(EXPIRED, version=version)
        around.stored = hypervisor(SILENT, CONNECTED)  # written again by an agent without a Lease
        await reconciler.reconcile(NAME)
        assert len(around.patched) == patches


@pytest.mark.parametrize(
    "between",
    [
        pytest.param((hypervisor(REPORTING, CONNECTED), RENEWED), id="a renewal"),
        pytest.param((None, EXPIRED), id="the Hypervisor was made again"),
    ],
)
async def test_conditions_are_replaced_again_after_the_agent_was_back(
    between: tuple[Hypervisor | None, LeaseSighting],
) -> None:
    before = (hypervisor(REPORTING, CONNECTED), EXPIRED)
    around = Around(*before)
    reconciler = around.reconciler()
    for stored, lease in (before, between, before):
        around.stored, around.lease = stored, lease
        await reconciler.reconcile(NAME)
    assert len(around.patched) == 2


@pytest.mark.parametrize(
    ("stored", "lease", "events"),
    [
        pytest.param((), EXPIRED, ["Warning NodeAgentSilent"], id="was dead"),
        pytest.param((REPORTING,), EXPIRED, ["Warning NodeAgentSilent"], id="dies"),
        pytest.param((SILENT,), EXPIRED, [], id="stays dead"),
        pytest.param((SILENT,), RENEWED, ["Normal NodeAgentReporting"], id="is back"),
        pytest.param((REPORTING,), RENEWED, [], id="goes on"),
        pytest.param((), RENEWED, [], id="is new"),
        pytest.param(
            (SILENT,), replace(EXPIRED, released=True), [], id="was dead, and has stopped since"
        ),
    ],
)
async def test_events_are_of_silence_and_its_end(
    stored: tuple[Condition, ...], lease: LeaseSighting, events: list[str]
) -> None:
    around = Around(hypervisor(*stored), lease)
    await around.reconciler().reconcile(NAME)
    assert around.events == events
