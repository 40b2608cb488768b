"""What the existing operator documents of Evictions, and what the API refuses."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.integration.operator.conftest import operator, passes, reason, until
from tests.integration.operator.documented import UNMANAGED, Cloud, by_hand, conditions_of
from tests.integration.operator.eviction_world import ended, state, words
from tests.integration.operator.lifecycle import QUICK
from tests.simulated_openstack.model import Fault, Server

from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.operator.eviction.planning import polling
from hypercobalt.operator.eviction.recording import status
from hypercobalt.runtime import InvalidError, Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

DISABLED = "HypervisorDisabled=True/Succeeded"
LIVE = {"os-migrateLive": {"host": None, "block_migration": False}}
COLD = {"migrate": None}
CONFIRM = {"confirmResize": None}


async def evict(cloud: Cloud) -> None:
    spec = EvictionSpec(hypervisor=cloud.name, reason="by hand")
    await cloud.kube.create(Eviction(metadata=ObjectMeta(name=cloud.name), spec=spec))


async def evicted(cloud: Cloud) -> Eviction:
    """The Eviction when it has ended, and its finalizer is gone."""
    return await until(
        cloud.kube,
        Eviction,
        cloud.name,
        lambda one: ended(one) and not one.metadata.finalizers,
    )


def on_volume(cloud: Cloud, state: str = "active") -> Server:
    """A server without a local disk, and a host that it may go to."""
    if len(cloud.world.hosts) == 1:
        cloud.world.pace.live = 0.2
        cloud.world.add_host(f"other-{cloud.name}")
    made = cloud.world.add_server(cloud.name, vm_state=state)
    made.image = ""
    return made


@pytest.mark.parametrize("disabled", [False, True], ids=["enabled", "disabled"])
async def test_empty_host_is_evicted_at_once(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, *, disabled: bool
) -> None:
    # No pass but for what has happened.
    monkeypatch.setattr(polling, "IDLE", timedelta(hours=1))
    monkeypatch.setattr(status, "WRITE_TEXTS_APART", timedelta(hours=1))
    cloud.host.enabled = not disabled
    await cloud.registered(*([DISABLED] if disabled else []), spec=UNMANAGED)
    await evict(cloud)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await evicted(cloud)
    assert state(done) == "False/Succeeded"
    assert "eviction completed successfully" in words(done)
    assert state(done, "PreflightChecksSucceeded") == "True/Succeeded"
    assert words(done, "PreflightChecksSucceeded").startswith("Preflight checks passed")
    assert done.status.hypervisorServiceId == cloud.host.id
    assert not done.status.outstandingInstances
    assert not done.status.outstandingRamMb


@pytest.mark.parametrize(
    ("before", "sent"),
    [
        pytest.param("active", [LIVE], id="a running one live"),
        pytest.param("stopped", [COLD, CONFIRM], id="a stopped one cold, and confirmed"),
    ],
)
async def test_server_leaves_with_the_documented_calls(
    cloud: Cloud, before: str, sent: list[dict[str, object]]
) -> None:
    cloud.host.enabled = False
    server = on_volume(cloud, before)
    await cloud.registered(DISABLED, spec=UNMANAGED)
    await evict(cloud)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await evicted(cloud)
    assert cloud.bodies("POST", f"/servers/{server.id}/action") == sent
    assert state(done) == "False/Succeeded"
    assert state(done, "MigratingInstance") == "False/Succeeded"
    assert server.id in words(done, "MigratingInstance")


async def test_server_that_is_deleted_meanwhile_counts_as_gone(cloud: Cloud) -> None:
    cloud.host.enabled = False
    server = on_volume(cloud, "building")
    await cloud.registered(DISABLED, spec=UNMANAGED)
    await evict(cloud)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await until(
            cloud.kube, Eviction, cloud.name, lambda one: bool(one.status.outstandingInstances)
        )
        assert held.status.outstandingInstances == (server.id,)
        cloud.world.remove_server(server)
        done = await evicted(cloud)
    assert state(done) == "False/Succeeded"
    assert state(done, "MigratingInstance") == "False/Succeeded"
    assert server.id in words(done, "MigratingInstance")


async def test_eviction_that_has_ended_is_not_opened_again(cloud: Cloud) -> None:
    cloud.host.enabled = False
    on_volume(cloud)
    await cloud.registered(DISABLED, spec=UNMANAGED)
    await evict(cloud)
    made = await cloud.kube.get(Eviction, cloud.name)
    assert made is not None
    over = EvictionStatus(conditions=conditions_of("Evicting=False/Failed"))
    await cloud.kube.patch_status(made, over)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK) as running:
        await passes(running, "eviction")
        await until(cloud.kube, Hypervisor, cloud.name, lambda hv: bool(reason(hv, "Registered")))
    seen = await cloud.kube.get(Eviction, cloud.name)
    assert seen is not None
    assert words(seen) == "by hand"
    assert cloud.bodies("POST", "/servers/*") == []


async def test_server_in_error_stays_and_is_named_while_the_others_leave(cloud: Cloud) -> None:
    cloud.host.enabled = False
    first, broken, last = on_volume(cloud), on_volume(cloud, "error"), on_volume(cloud)
    broken.fault = Fault(500, "disk is broken")
    await cloud.registered(DISABLED, spec=UNMANAGED)
    await evict(cloud)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await evicted(cloud)
    for good in (first, last):
        assert cloud.bodies("POST", f"/servers/{good.id}/action") == [LIVE]
    assert cloud.bodies("POST", f"/servers/{broken.id}/action") == []
    assert done.status.outstandingInstances == (broken.id,)
    assert state(done, "MigratingInstance") == "False/Failed"
    assert broken.id in words(done, "MigratingInstance")
    assert "disk is broken" in words(done, "MigratingInstance")
    assert state(done) == "False/Failed"


@pytest.mark.parametrize(
    ("registered", "end", "text"),
    [
        pytest.param(True, "False/Failed", "got 404", id="registered"),
        pytest.param(
            False, "False/Succeeded", "eviction completed successfully", id="never registered"
        ),
    ],
)
async def test_eviction_of_a_host_that_nova_does_not_list_ends(
    cloud: Cloud, end: str, text: str, *, registered: bool
) -> None:
    if registered:
        await cloud.registered(DISABLED, spec=UNMANAGED)
    else:
        await by_hand(cloud.kube, cloud.name, spec=UNMANAGED)
    del cloud.world.hosts[cloud.name]
    await evict(cloud)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await evicted(cloud)
    assert state(done) == end
    assert text in words(done)
    assert cloud.changes == []


async def test_eviction_waits_until_its_host_is_disabled(cloud: Cloud) -> None:
    server = on_volume(cloud)
    fault = cloud.fail("compute PUT /os-services/{id}")
    await cloud.registered(spec=UNMANAGED)
    await evict(cloud)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await until(
            cloud.kube,
            Eviction,
            cloud.name,
            lambda one: state(one, "PreflightChecksSucceeded") == "False/Failed",
        )
        assert "hypervisor not disabled" in words(held, "PreflightChecksSucceeded")
        assert state(held) == "True/Running"
        assert cloud.bodies("POST", f"/servers/{server.id}/action") == []
        cloud.script.faults.remove(fault)
        assert state(await evicted(cloud)) == "False/Succeeded"


# -- the API ---------------------------------------------------------------------------------------

FROZEN = "spec is immutable when maintenance is 'termination'"
REASON = "maintenanceReason must be non-empty when maintenance is 'manual'"
LEAVING: dict[str, object] = {"maintenance": "termination"}
MANUAL: dict[str, object] = {"maintenance": "manual", "maintenanceReason": "fan"}
UUID = "11111111-2222-3333-4444-555555555555"


def grouped(*groups: object) -> dict[str, object]:
    return {"groups": list(groups)}


TRAIT = {"trait": {"name": "CUSTOM_A"}}
AGGREGATE = {"aggregate": {"name": "a", "uuid": UUID, "metadata": {"k": "v"}}}


@pytest.mark.parametrize(
    ("before", "patch", "refused"),
    [
        ({}, {"version": "2", "reboot": True, "aggregates": ["a"]}, ""),
        ({}, LEAVING, ""),
        (LEAVING, {"version": "2"}, FROZEN),
        (LEAVING, {"reboot": True}, FROZEN),
        (LEAVING, {"aggregates": ["a"]}, FROZEN),
        (LEAVING, {"maintenance": "manual", "maintenanceReason": "fan"}, FROZEN),
        (LEAVING, {"maintenance": "auto"}, FROZEN),
        (LEAVING, {"maintenance": ""}, FROZEN),
        (LEAVING, {"maintenance": None}, FROZEN),
        (LEAVING, {"maintenance": "ha", "version": "2"}, ""),
        (LEAVING, {}, ""),
        ({}, MANUAL, ""),
        ({}, {"maintenance": "manual"}, REASON),
        ({}, {"maintenance": "manual", "maintenanceReason": ""}, REASON),
        ({}, {"maintenance": "auto"}, ""),
        (MANUAL, {"maintenance": "auto", "maintenanceReason": None}, ""),
        (MANUAL, {"maintenanceReason": "disk"}, ""),
        ({}, {"overcommit": {"cpu": 0.5}}, "overcommit ratios must be >= 1.0"),
        ({}, grouped(TRAIT, AGGREGATE), ""),
        ({}, grouped(), ""),
        ({}, grouped(TRAIT | AGGREGATE), "exactly one group type must be set"),
        ({}, grouped({}), "exactly one group type must be set"),
        ({}, grouped({"trait": {"name": ""}}), "spec.groups[0].trait.name"),
        (
            {},
            grouped({"aggregate": {"name": "", "uuid": UUID}}),
            "spec.groups[0].aggregate.name",
        ),
        ({}, grouped({"aggregate": {"name": "a", "uuid": ""}}), "spec.groups[0].aggregate.uuid"),
    ],
)
async def test_api_accepts_or_refuses_a_change_of_a_hypervisor(
    kube: Kube, name: str, before: dict[str, object], patch: dict[str, object], refused: str
) -> None:
    await kube.create(Hypervisor(metadata=ObjectMeta(name=name)))
    await kube.merge_patch(Hypervisor, name, {"spec": before})
    change = {"spec": patch}
    if refused:
        with pytest.raises(InvalidError) as caught:
            await kube.merge_patch(Hypervisor, name, change)
        assert refused in str(caught.value)
    else:
        await kube.merge_patch(Hypervisor, name, change)


@pytest.mark.parametrize(
    ("hypervisor", "why", "field"),
    [("", "upgrade", "spec.hypervisor"), ("kvm-a", "", "spec.reason")],
)
async def test_eviction_without_a_host_or_a_reason_is_refused(
    kube: Kube, name: str, hypervisor: str, why: str, field: str
) -> None:
    spec = EvictionSpec(hypervisor=hypervisor, reason=why)
    with pytest.raises(InvalidError) as caught:
        await kube.create(Eviction(metadata=ObjectMeta(name=name), spec=spec))
    assert field in str(caught.value)
    assert "should be at least 1 chars long" in str(caught.value)


async def test_host_of_an_eviction_stays_and_its_reason_may_change(kube: Kube, name: str) -> None:
    spec = EvictionSpec(hypervisor="kvm-a", reason="upgrade")
    await kube.create(Eviction(metadata=ObjectMeta(name=name), spec=spec))
    with pytest.raises(InvalidError, match="Value is immutable"):
        await kube.merge_patch(Eviction, name, {"spec": {"hypervisor": "kvm-b"}})
    await kube.merge_patch(Eviction, name, {"spec": {"reason": "repair"}})
