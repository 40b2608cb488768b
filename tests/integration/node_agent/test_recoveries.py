"""What is done about incidents that are due, against a real API server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
import pytest_asyncio
from msgspec.structs import replace
from tests.following import background
from tests.integration.node_agent.conftest import NODE, create
from tests.integration.runtime.scripted import eventually
from tests.unit.ha.signs import U1, uuid
from tests.unit.node_agent.incidents.recovering import Recovering

from hypercobalt.adapters.libvirt.fake import FakeLibvirt
from hypercobalt.adapters.libvirt.model import Domain, DomainState
from hypercobalt.api.conditions import ConditionStatus, set_condition
from hypercobalt.api.eviction import Eviction, EvictionReason, EvictionStatus
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.incident import IncidentType
from hypercobalt.ha.incidents.cases import Case, Step
from hypercobalt.ha.incidents.config import HaConfig
from hypercobalt.ha.incidents.holding import LOOK_AGAIN
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="module")

U2 = uuid(2)


class Acting(Recovering):
    """The recoveries of a host with one paused instance."""

    @property
    def case(self) -> Case:
        (case,) = self.store.get(U1).cases
        return case


@pytest_asyncio.fixture(autouse=True, loop_scope="module")
async def nothing_left(kube: Kube) -> AsyncIterator[None]:
    yield
    for eviction in (await kube.list(Eviction)).items:
        await kube.delete(Eviction, eviction.metadata.name)


async def test_an_instance_is_resumed(kube: Kube) -> None:
    await create(kube)
    acting = Acting(kube)
    acting.open(Step.RESUME)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.libvirt.calls["resume"] == 1)
        await eventually(lambda: acting.store.get(U1).resumes == 1)
    assert acting.case.step is Step.PROBE


async def test_changes_of_an_instance_while_another_is_resumed_are_kept(kube: Kube) -> None:
    class Meanwhile(FakeLibvirt):
        async def resume(self, uuid: str) -> None:
            await super().resume(uuid)
            acting.config = HaConfig(dry_run=True)
            acting.store.put(replace(acting.store.get(U2), memory_bytes=1))

    await create(kube)
    acting = Acting(kube, libvirt=Meanwhile())
    for who in (U1, U2):
        acting.open(Step.RESUME, who=who)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.store.get(U2).cases[0].step is Step.HELD)
    assert acting.libvirt.calls["resume"] == 1
    assert acting.store.get(U2).memory_bytes == 1


async def test_an_instance_of_a_fenced_host_is_not_resumed(kube: Kube) -> None:
    stored = await create(kube)
    fencing = Fencing(phase=FencingPhase.FENCED, bootID="b1")
    await kube.patch_status(stored, HypervisorStatus(bootID="b1", fencing=fencing))
    acting = Acting(kube)
    acting.open(Step.RESUME)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.NONE)
    assert acting.libvirt.calls["resume"] == 0
    assert acting.case.evidence[-1].startswith("held back: the host is fenced, and not recovered")


async def test_a_recovery_waits_until_the_ha_service_gives_the_host_back(kube: Kube) -> None:
    await create(kube)
    await kube.merge_patch(Hypervisor, NODE, {"spec": {"maintenance": "ha"}})
    acting = Acting(kube)
    acting.open(Step.RECOVER, type_=IncidentType.ENDED_BY_BOOT)
    async with background(acting.recoveries.run):
        await eventually(
            lambda: acting.case.evidence[-1:] == ("the HA service is recovering the host",)
        )
        assert not (await kube.list(Eviction)).items
        await kube.merge_patch(Hypervisor, NODE, {"spec": {"maintenance": ""}})
        acting.clock.advance(timedelta(seconds=11))
        acting.store.put(replace(acting.store.get(U1), memory_bytes=1))  # wakes it
        await eventually(lambda: acting.case.step is Step.FOLLOW)


async def test_an_instance_without_hypervisor_is_not_resumed(kube: Kube) -> None:
    acting = Acting(kube)
    acting.open(Step.RESUME)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.HELD)
    assert acting.libvirt.calls["resume"] == 0


async def test_a_dry_run_resumes_nothing(kube: Kube) -> None:
    await create(kube)
    acting = Acting(kube, config=HaConfig(dry_run=True))
    acting.open(Step.RESUME)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.HELD)
    assert acting.libvirt.calls["resume"] == 0


async def ended(kube: Kube, acting: Acting, reason: EvictionReason, message: str = "") -> Eviction:
    """Have the Eviction of the incident made, and ended."""
    await create(kube)
    acting.open(Step.RECOVER, type_=IncidentType.CRASH)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.FOLLOW)
    made = await kube.get(Eviction, acting.case.eviction)
    assert made is not None
    conditions = set_condition(
        (), "Evicting", ConditionStatus.FALSE, reason, message, now=acting.clock.now()
    )
    return await kube.patch_status(made, EvictionStatus(conditions=conditions))


async def test_an_eviction_that_failed_is_made_again_after_a_while(kube: Kube) -> None:
    """The instance is still off, and the cause of the failure may be over."""
    acting = Acting(kube)
    made = await ended(kube, acting, EvictionReason.FAILED, "no valid host")
    acting.clock.advance(timedelta(seconds=31))
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.RECOVER)
        assert "no valid host" in acting.case.evidence[-1]
        acting.clock.advance(timedelta(minutes=11))
        acting.store.put(replace(acting.store.get(U1), memory_bytes=1))  # wakes it
        await eventually(lambda: acting.case.step is Step.FOLLOW)
    again = await kube.get(Eviction, made.metadata.name)
    assert again is not None
    assert again.metadata.uid != made.metadata.uid


async def test_an_eviction_that_was_deleted_is_given_up(kube: Kube) -> None:
    acting = Acting(kube)
    made = await ended(kube, acting, EvictionReason.SUCCEEDED)
    await kube.delete(Eviction, made.metadata.name)
    acting.clock.advance(timedelta(seconds=31))
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.type is IncidentType.RECOVERY_EXHAUSTED)
    assert "was deleted" in acting.case.evidence[-1]


async def test_an_eviction_that_succeeded_closes_its_incident(kube: Kube) -> None:
    acting = Acting(kube)
    await ended(kube, acting, EvictionReason.SUCCEEDED)
    acting.clock.advance(timedelta(seconds=31))
    async with background(acting.recoveries.run):
        await eventually(lambda: not acting.store.get(U1).cases)


@pytest.mark.parametrize(("minutes", "anew"), [(5, False), (15, True)])
async def test_an_eviction_that_ended_lately_is_not_made_again(
    kube: Kube, minutes: int, *, anew: bool
) -> None:
    acting = Acting(kube)
    before = await ended(kube, acting, EvictionReason.SUCCEEDED)
    acting.clock.advance(timedelta(minutes=minutes))
    acting.open(Step.RECOVER, type_=IncidentType.CRASH)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.FOLLOW)
    after = await kube.get(Eviction, before.metadata.name)
    assert after is not None
    assert (after.metadata.uid != before.metadata.uid) == anew


async def test_evictions_that_ended_a_day_ago_are_removed_with_the_next(kube: Kube) -> None:
    acting = Acting(kube)
    old = await ended(kube, acting, EvictionReason.SUCCEEDED)
    acting.clock.advance(timedelta(days=2))
    acting.open(Step.RECOVER, type_=IncidentType.WATCHDOG)
    async with background(acting.recoveries.run):
        await eventually(lambda: len(acting.store.host.evictions) == 1)
        await eventually(lambda: acting.case.step is Step.FOLLOW)
        await eventually(lambda: acting.store.host.evictions[0].name != old.metadata.name)
    left = [one.metadata.name for one in (await kube.list(Eviction)).items]
    assert left == [one.name for one in acting.store.host.evictions]


async def test_a_second_incident_waits_for_the_eviction_of_the_first(kube: Kube) -> None:
    await create(kube)
    acting = Acting(kube)
    acting.open(Step.RECOVER, type_=IncidentType.MONITOR_HUNG)
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.FOLLOW)
        first = acting.case
        acting.open(Step.RECOVER, type_=IncidentType.CRASH)
        crash = acting.case
        acting.store.put(acting.store.get(U1).with_case(first))
        await eventually(
            lambda: (
                f"recovery waits for Eviction {first.eviction}"
                in next(c for c in acting.store.get(U1).cases if c.id == crash.id).evidence
            )
        )
    assert [one.metadata.name for one in (await kube.list(Eviction)).items] == [first.eviction]


async def test_incident_held_back_by_maintenance_is_recovered_once_it_is_over(kube: Kube) -> None:
    await create(kube)
    acting = Acting(kube)
    acting.libvirt.put(Domain(U1, "vm1", False, DomainState.SHUTOFF))
    acting.open(Step.RECOVER, type_=IncidentType.CRASH)
    await kube.merge_patch(Hypervisor, NODE, {"spec": {"maintenance": "auto"}})
    async with background(acting.recoveries.run):
        await eventually(lambda: acting.case.step is Step.HELD)
        assert acting.case.evidence[-1].startswith("held back: maintenance: auto; recovered once")
        assert not (await kube.list(Eviction)).items
        await kube.merge_patch(Hypervisor, NODE, {"spec": {"maintenance": ""}})
        acting.clock.advance(LOOK_AGAIN)
        acting.store.put(replace(acting.store.get(U1), memory_bytes=1))  # wakes it
        await eventually(lambda: acting.case.step is Step.FOLLOW)
    (eviction,) = (await kube.list(Eviction)).items
    assert eviction.spec.instances == (U1,)
