"""What the existing operator documents of a host in service: maintenance, traits, aggregates."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.integration.operator.conftest import operator, reason, until
from tests.integration.operator.documented import IN_SERVICE, MANAGED, UNMANAGED, Cloud
from tests.integration.operator.eviction_world import state
from tests.integration.operator.lifecycle import QUICK, TEST_AGGREGATE, message, set_spec
from tests.integration.runtime.scripted import eventually
from tests.simulated_openstack.http import Json

from hypercobalt.api.eviction import Eviction, EvictionSpec
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, Maintenance
from hypercobalt.api.meta import ObjectMeta

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

SERVICES, TRAITS = "/os-services/*", "/resource_providers/*/traits"
DISABLED = "HypervisorDisabled=True/Succeeded"
ENABLED = "HypervisorDisabled=False/Succeeded"
HANDOVER = "Onboarding=True/Handover"
TRAITS_SET = "TraitsUpdated=True/Succeeded"
ENABLE = {"status": "enabled", "forced_down": False}


def disable(mode: str) -> dict[str, str]:
    return {
        "status": "disabled",
        "disabled_reason": f"Hypervisor CRD: spec.maintenance={mode}",
    }


def maintained(mode: str, spec: HypervisorSpec = MANAGED) -> HypervisorSpec:
    return replace(
        spec, maintenance=Maintenance(mode), maintenanceReason="fan" if mode == "manual" else None
    )


async def found(cloud: Cloud, type_: str, wanted: str) -> Hypervisor:
    """Wait until a condition is so."""
    return await until(cloud.kube, Hypervisor, cloud.name, lambda hv: reason(hv, type_) == wanted)


# -- maintenance -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["manual", "auto", "termination"])
@pytest.mark.parametrize("spec", [MANAGED, UNMANAGED], ids=["managed", "unmanaged"])
async def test_maintenance_disables_the_service_and_makes_an_eviction(
    cloud: Cloud, mode: str, spec: HypervisorSpec
) -> None:
    stuck = cloud.world.add_server(cloud.name, vm_state="building")
    await cloud.registered(IN_SERVICE, spec=maintained(mode, spec))
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await found(cloud, "Evicting", "True/Running")
        assert reason(held, "HypervisorDisabled") == "True/Succeeded"
        assert not held.status.evicted
        eviction = await until(cloud.kube, Eviction, cloud.name, lambda e: state(e) != "")
        assert eviction.spec.hypervisor == cloud.name
        (owner,) = eviction.metadata.ownerReferences
        assert (owner.kind, owner.name, owner.controller) == ("Hypervisor", cloud.name, True)
        assert eviction.metadata.labels["topology.kubernetes.io/zone"] == "zone-a"
        cloud.world.remove_server(cloud.world.servers[stuck.id])
        done = await found(cloud, "Evicting", "False/Succeeded")
        assert done.status.evicted
    assert cloud.bodies("PUT", SERVICES) == [disable(mode)]


@pytest.mark.parametrize("conditions", [(), (DISABLED,)], ids=["unknown", "disabled"])
@pytest.mark.parametrize("spec", [MANAGED, UNMANAGED], ids=["managed", "unmanaged"])
async def test_without_maintenance_the_service_is_enabled_and_no_longer_forced_down(
    cloud: Cloud, conditions: tuple[str, ...], spec: HypervisorSpec
) -> None:
    cloud.host.enabled, cloud.host.forced_down = False, True
    before = (IN_SERVICE,) if spec is MANAGED else ()
    await cloud.registered(*before, *conditions, spec=spec)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        await found(cloud, "HypervisorDisabled", "False/Succeeded")
    assert cloud.bodies("PUT", SERVICES) == [ENABLE]


async def test_end_of_a_maintenance_deletes_its_eviction(cloud: Cloud) -> None:
    cloud.host.enabled = False
    await cloud.registered(IN_SERVICE, DISABLED, "Evicting=False/Succeeded", evicted=True)
    spec = EvictionSpec(hypervisor=cloud.name, reason="openstack-hypervisor-operator maintenance")
    await cloud.kube.create(Eviction(metadata=ObjectMeta(name=cloud.name), spec=spec))
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        back = await found(cloud, "Evicting", "")
        assert back.status.evicted is False
        assert reason(back, "HypervisorDisabled") == "False/Succeeded"

        async def is_gone() -> bool:
            return await cloud.kube.get(Eviction, cloud.name) is None

        await eventually(is_gone)  # its finalizer may have to be removed first
    assert cloud.bodies("PUT", SERVICES) == [ENABLE]


async def test_maintenance_of_the_ha_service_is_left_to_it(cloud: Cloud) -> None:
    await cloud.registered(IN_SERVICE, spec=maintained("ha"))
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await found(cloud, "AggregatesUpdated", "True/Succeeded")
        assert reason(held, "HypervisorDisabled") == ""
        assert reason(held, "Evicting") == ""
        assert await cloud.kube.get(Eviction, cloud.name) is None
    assert cloud.bodies("PUT", SERVICES) == []


async def test_refused_disabling_is_not_taken_for_done(cloud: Cloud) -> None:
    fault = cloud.fail("compute PUT /os-services/{id}")
    await cloud.registered(IN_SERVICE, ENABLED, spec=maintained("auto"))
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await found(cloud, "HypervisorDisabled", "False/Failed")
        assert "Cannot disable the host" in message(held, "HypervisorDisabled")
        cloud.script.faults.remove(fault)
        await found(cloud, "HypervisorDisabled", "True/Succeeded")
    assert cloud.bodies("PUT", SERVICES) == [disable("auto")]


async def test_maintenance_of_a_host_that_is_not_in_nova_calls_nova_for_nothing(
    cloud: Cloud,
) -> None:
    del cloud.world.hosts[cloud.name]
    await cloud.kube.create(
        Hypervisor(metadata=ObjectMeta(name=cloud.name), spec=maintained("auto", UNMANAGED))
    )
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await found(cloud, "Evicting", "False/Succeeded")
        assert reason(done, "HypervisorDisabled") == ""
    assert cloud.changes == []


# -- traits ----------------------------------------------------------------------------------------

WANTED = replace(MANAGED, customTraits=("CUSTOM_FOO", "CUSTOM_BAR"))


def provider(cloud: Cloud, *traits: str) -> None:
    cloud.world.custom_traits |= {"CUSTOM_FOO", "CUSTOM_BAR", "CUSTOM_OLD", "CUSTOM_OTHERS"}
    cloud.host.traits = {*traits}


@pytest.mark.parametrize("onboarding", [IN_SERVICE, HANDOVER])
async def test_traits_are_put_with_those_of_others_and_the_generation_that_was_read(
    cloud: Cloud, onboarding: str
) -> None:
    provider(cloud, "CUSTOM_FOO", "CUSTOM_OLD", "CUSTOM_OTHERS", "HW_CPU_X86_VMX")
    applied = ("CUSTOM_FOO", "CUSTOM_OLD", "HW_CPU_X86_VMX")
    await cloud.registered(onboarding, ENABLED, spec=WANTED, traits=applied)
    generation = cloud.host.generation
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await found(cloud, "TraitsUpdated", "True/Succeeded")
    target = ["CUSTOM_BAR", "CUSTOM_FOO", "CUSTOM_OTHERS", "HW_CPU_X86_VMX"]
    body = {"traits": target, "resource_provider_generation": generation}
    assert cloud.bodies("PUT", TRAITS) == [body]
    assert list(done.status.traits) == target


@pytest.mark.parametrize(
    ("conditions", "spec"),
    [
        pytest.param((), WANTED, id="before the onboarding"),
        pytest.param(("Onboarding=True/Initial",), WANTED, id="at its beginning"),
        pytest.param((IN_SERVICE,), maintained("termination", WANTED), id="in termination"),
        pytest.param((IN_SERVICE,), replace(WANTED, lifecycleEnabled=False), id="lifecycle off"),
    ],
)
async def test_traits_are_not_read_or_set(
    cloud: Cloud, conditions: tuple[str, ...], spec: HypervisorSpec
) -> None:
    cloud.world.add_server(cloud.name, vm_state="building") if spec.maintenance else None
    await cloud.registered(*conditions, spec=spec)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        seen = await found(cloud, "Registered", "True/Registered")
        assert reason(seen, "TraitsUpdated") == ""
    assert cloud.script.count("placement * /resource_providers/{id}/traits") == 0


@pytest.mark.parametrize("before", [(), (TRAITS_SET,)], ids=["at first", "for a new wish"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
async def test_traits_that_cannot_be_read_or_put_are_an_error_until_they_can(
    cloud: Cloud, method: str, before: tuple[str, ...]
) -> None:
    fault = cloud.fail(f"placement {method} /resource_providers/{{id}}/traits")
    await cloud.registered(IN_SERVICE, *before, spec=WANTED)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await found(cloud, "TraitsUpdated", "False/Failed")
        assert message(held, "TraitsUpdated").startswith("Failed to update traits: ")
        assert "500" in message(held, "TraitsUpdated")
        assert cloud.bodies("PUT", TRAITS) == []
        cloud.script.faults.remove(fault)
        await found(cloud, "TraitsUpdated", "True/Succeeded")


# -- aggregates ------------------------------------------------------------------------------------

GENERAL = replace(MANAGED, aggregates=("zone-a", "general"))
TEST = {"zone-a", TEST_AGGREGATE}


@pytest.mark.parametrize(
    ("onboarding", "before", "conditions", "wanted", "inside"),
    [
        pytest.param(
            "True/Initial", {"general"}, (), "False/TestAggregates", TEST, id="at the beginning"
        ),
        pytest.param("True/Testing", (), (), "False/TestAggregates", TEST, id="in the test"),
        pytest.param(
            "True/Handover", TEST, (), "False/WaitingForTraits", TEST, id="before the traits"
        ),
        pytest.param(
            "True/Handover", (), (), "False/WaitingForTraits", TEST, id="entered before the traits"
        ),
        pytest.param(
            "False/Succeeded",
            {"zone-a", "special"},
            (TRAITS_SET,),
            "True/Succeeded",
            {"zone-a", "general"},
            id="in service",
        ),
        pytest.param(
            "False/Succeeded",
            {"zone-a", "general"},
            (TRAITS_SET,),
            "True/Succeeded",
            {"zone-a", "general"},
            id="as they were",
        ),
    ],
)
async def test_host_is_in_the_aggregates_of_its_state(
    cloud: Cloud,
    *,
    onboarding: str,
    before: Iterable[str],
    conditions: tuple[str, ...],
    wanted: str,
    inside: set[str],
) -> None:
    cloud.enter(*before)
    cloud.host.silent = True  # its test does not end
    if onboarding != "False/Succeeded":
        cloud.fail("placement GET /resource_providers/{id}/traits")
    there = cloud.aggregates(*before)
    given = (f"Onboarding={onboarding}", *conditions)
    await cloud.registered(*given, spec=GENERAL, aggregates=there)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await found(cloud, "AggregatesUpdated", wanted)
        await eventually(lambda: cloud.inside == inside)
        await until(
            cloud.kube,
            Hypervisor,
            cloud.name,
            lambda hv: {one.name for one in hv.status.aggregates} == inside,
        )
    assert done.status.aggregates is not None
    sent = {
        (next(iter(body)), body[next(iter(body))]["host"])
        for body in cloud.bodies("POST", "/os-aggregates/*/action")
    }
    entered, left = inside - set(before), set(before) - inside
    kinds = {kind for kind, some in (("add_host", entered), ("remove_host", left)) if some}
    assert sent == {(kind, cloud.name) for kind in kinds}


async def test_host_without_desired_aggregates_leaves_all(cloud: Cloud) -> None:
    cloud.enter("zone-a", "general")
    there = cloud.aggregates("zone-a", "general")
    await cloud.registered(IN_SERVICE, TRAITS_SET, aggregates=there)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        await found(cloud, "AggregatesUpdated", "True/Succeeded")
        await until(cloud.kube, Hypervisor, cloud.name, lambda hv: not hv.status.aggregates)
    assert cloud.inside == set()
    body: Json = {"remove_host": {"host": cloud.name}}
    assert cloud.bodies("POST", "/os-aggregates/*/action") == [body, body]


async def test_aggregates_stay_in_a_termination_until_the_host_is_empty(cloud: Cloud) -> None:
    cloud.enter("zone-a", "general")
    there = cloud.aggregates("zone-a", "general")
    stuck = cloud.world.add_server(cloud.name, vm_state="building")
    await cloud.registered(
        IN_SERVICE, TRAITS_SET, spec=maintained("termination", GENERAL), aggregates=there
    )
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await found(cloud, "AggregatesUpdated", "False/EvictionInProgress")
        assert held.status.aggregates == there
        assert cloud.inside == {"zone-a", "general"}
        cloud.world.remove_server(cloud.world.servers[stuck.id])
        await found(cloud, "AggregatesUpdated", "False/Terminating")
        await until(cloud.kube, Hypervisor, cloud.name, lambda hv: not hv.status.aggregates)
    assert cloud.inside == set()


@pytest.mark.parametrize("before", [(), ("AggregatesUpdated=True/Succeeded",)])
@pytest.mark.parametrize(
    ("calls", "code", "words"),
    [
        pytest.param("GET /os-aggregates", 500, ("500",), id="list"),
        pytest.param("POST /os-aggregates/{id}/action add_host", 409, ("409", "general"), id="add"),
        pytest.param("POST /os-aggregates/{id}/action add_host", 500, ("500", "general"), id="500"),
        pytest.param(
            "POST /os-aggregates/{id}/action remove_host", 409, ("409", "special"), id="remove"
        ),
        pytest.param(
            "POST /os-aggregates/{id}/action *", 409, ("409", "general", "special"), id="both"
        ),
    ],
)
async def test_aggregates_that_cannot_be_set_are_an_error_until_they_can(
    cloud: Cloud, calls: str, code: int, words: tuple[str, ...], before: tuple[str, ...]
) -> None:
    cloud.enter("zone-a", "special")
    there = cloud.aggregates("zone-a", "special")
    fault = cloud.fail(f"compute {calls}", code)
    await cloud.registered(IN_SERVICE, TRAITS_SET, *before, spec=GENERAL, aggregates=there)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await found(cloud, "AggregatesUpdated", "False/Failed")
        text = message(held, "AggregatesUpdated")
        assert text.startswith("failed to apply aggregates: ")
        assert all(word in text for word in words), text
        cloud.script.faults.remove(fault)
        await found(cloud, "AggregatesUpdated", "True/Succeeded")
    assert cloud.inside == {"zone-a", "general"}


async def test_all_missing_aggregates_are_named_and_nothing_is_changed(cloud: Cloud) -> None:
    spec = replace(MANAGED, aggregates=("general", "nowhere", "neither"))
    await cloud.registered(IN_SERVICE, TRAITS_SET, spec=spec)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        held = await found(cloud, "AggregatesUpdated", "False/Failed")
    assert "'nowhere', 'neither'" in message(held, "AggregatesUpdated")
    assert cloud.inside == set()


async def test_metadata_of_aggregates_is_kept(cloud: Cloud) -> None:
    await cloud.registered(IN_SERVICE, TRAITS_SET, spec=GENERAL)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        done = await found(cloud, "AggregatesUpdated", "True/Succeeded")
    assert done.status.aggregates == cloud.aggregates("general", "zone-a")


async def test_change_of_the_spec_changes_the_aggregates(cloud: Cloud) -> None:
    await cloud.registered(IN_SERVICE, TRAITS_SET, spec=GENERAL)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        await eventually(lambda: cloud.inside == {"zone-a", "general"})
        await set_spec(cloud.kube, cloud.name, aggregates=("zone-a", "special"))
        await eventually(lambda: cloud.inside == {"zone-a", "special"})
