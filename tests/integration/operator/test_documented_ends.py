"""What the existing operator documents of tests that fail, aborted onboardings and offboarding."""

from __future__ import annotations

from dataclasses import replace as with_settings
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.integration.operator.conftest import operator, reason, until
from tests.integration.operator.documented import IN_SERVICE, MANAGED, Cloud
from tests.integration.operator.lifecycle import QUICK, message
from tests.integration.runtime.scripted import eventually
from tests.simulated_openstack.http import Request

from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, Maintenance

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

TESTING = "Onboarding=True/Testing"
LEAVING = replace(MANAGED, maintenance=Maintenance.TERMINATION)
EMPTY = ("Onboarding=False/Aborted", "Evicting=False/Succeeded", "HypervisorDisabled=True")
ALONE = (*EMPTY, "AgentPodsEvicted=True/NoAgentPods")
UUID = "11111111-2222-3333-4444-555555555555"
FORGETS = ("compute DELETE *", "placement DELETE *")


async def reported(cloud: Cloud, type_: str, *words: str) -> Hypervisor:
    """Wait until a condition's message has those words."""

    def all_there(hypervisor: Hypervisor) -> bool:
        return all(word in message(hypervisor, type_) for word in words)

    return await until(cloud.kube, Hypervisor, cloud.name, all_there)


# -- onboarding ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silent", "fault", "words"),
    [
        pytest.param(True, "", "timeout", id="nothing on its console"),
        pytest.param(False, "disk is broken", "disk is broken", id="in ERROR"),
    ],
)
async def test_test_server_that_fails_is_named_deleted_and_followed_by_another(
    cloud: Cloud, silent: bool, fault: str, words: str
) -> None:
    cloud.host.silent, cloud.host.refuses = silent, fault
    await cloud.registered(TESTING)
    brief = with_settings(QUICK, test_tries=1000, console_limit=timedelta(milliseconds=100))
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=brief):
        shown = await reported(cloud, "Onboarding", words)
        assert reason(shown, "Onboarding") == "True/Testing"
        await eventually(lambda: len(cloud.bodies("POST", "/servers")) > 1)
    assert cloud.script.count("compute DELETE /servers/{id}") > 0
    body = cloud.bodies("POST", "/servers")[0]["server"]
    assert body["name"] == f"ohooc--{cloud.name}-{shown.metadata.uid}"
    assert (body["availability_zone"], body["flavorRef"]) == (f"zone-a:{cloud.name}", "1")


@pytest.mark.parametrize("onboarding", [TESTING, IN_SERVICE], ids=["in its test", "completed"])
@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param(replace(MANAGED, lifecycleEnabled=False), "LifecycleEnabled", id="off"),
        pytest.param(LEAVING, "MaintenanceTermination", id="termination"),
    ],
)
async def test_onboarding_is_aborted_and_names_the_cause(
    cloud: Cloud, onboarding: str, spec: HypervisorSpec, cause: str
) -> None:
    made = await cloud.registered(onboarding, spec=spec)
    test = next(
        one.id
        for one in cloud.world.projects.values()
        if (one.domain, one.name) == ("cc3test", "test")
    )
    name = f"ohooc--{cloud.name}-{made.metadata.uid}"
    cloud.world.add_server(cloud.name, name=name, project=test)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        shown = await reported(cloud, "Onboarding", cause)
        assert reason(shown, "Onboarding") == "False/Aborted"
        assert reason(shown, "Ready") in ("False/Onboarding", "False/Evicting", "False/Maintenance")
        if onboarding == TESTING:
            await eventually(lambda: cloud.world.servers == {})


async def test_test_servers_that_cannot_be_deleted_show(cloud: Cloud) -> None:
    fault = cloud.fail("compute GET /servers*")
    await cloud.registered(TESTING, spec=replace(MANAGED, lifecycleEnabled=False))
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        shown = await reported(cloud, "Onboarding", "500")
        assert reason(shown, "Onboarding") == "True/Aborted"
        cloud.script.faults.remove(fault)
        await until(
            cloud.kube,
            Hypervisor,
            cloud.name,
            lambda hv: reason(hv, "Onboarding") == "False/Aborted",
        )


# -- offboarding -----------------------------------------------------------------------------------


def keep_provider(cloud: Cloud, consumer: str = "") -> None:
    """Nova takes the provider along with the service; one that it leaves is the operator's."""
    host = cloud.host

    def left(_request: Request) -> None:
        host.provider = True
        if consumer:
            cloud.world.allocations.setdefault(consumer, {})[host.id] = {"VCPU": 1}

    cloud.script.after("compute DELETE /os-services/{id}", left)


async def test_host_that_is_empty_and_alone_leaves(cloud: Cloud) -> None:
    keep_provider(cloud)
    await cloud.registered(*ALONE, spec=LEAVING)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        shown = await reported(cloud, "Offboarded", "Offboarding successful")
    assert reason(shown, "Offboarded") == "True/Offboarded"
    assert [(one.call, one.path) for one in cloud.changes if one.call == "DELETE"] == [
        ("DELETE", f"/os-services/{cloud.host.service_id}"),
        ("DELETE", f"/resource_providers/{cloud.host.id}"),
    ]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(replace(LEAVING, lifecycleEnabled=False), id="lifecycle off"),
        pytest.param(
            replace(MANAGED, maintenance=Maintenance.MANUAL, maintenanceReason="fan"), id="manual"
        ),
    ],
)
async def test_host_that_does_not_leave_has_no_offboarded_condition(
    cloud: Cloud, spec: HypervisorSpec
) -> None:
    cloud.host.enabled = False
    await cloud.registered(*ALONE, spec=spec)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        seen = await until(
            cloud.kube, Hypervisor, cloud.name, lambda hv: reason(hv, "Registered") != ""
        )
        assert reason(seen, "Offboarded") == ""
    assert sum(cloud.script.count(calls) for calls in FORGETS) == 0


@pytest.mark.parametrize(
    ("fails", "code", "conditions", "words"),
    [
        pytest.param(
            "compute GET /os-hypervisors/detail", 500, ALONE, "500", id="Nova does not answer"
        ),
        pytest.param("", 0, EMPTY, "Waiting for agent pods to be evicted", id="agents are there"),
        pytest.param(
            "compute POST /os-aggregates/{id}/action *",
            403,
            ALONE,
            "Waiting for aggregates to be removed",
            id="in aggregates",
        ),
    ],
)
async def test_host_stays_in_openstack_while_something_is_in_the_way(
    cloud: Cloud, fails: str, code: int, conditions: tuple[str, ...], words: str
) -> None:
    cloud.enter("general")
    there = cloud.aggregates("general")
    if fails:
        cloud.fail(fails, code)
    await cloud.registered(*conditions, spec=LEAVING, aggregates=there)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        shown = await reported(cloud, "Offboarded", words)
    assert reason(shown, "Offboarded") == "False/Offboarding"
    assert sum(cloud.script.count(calls) for calls in FORGETS) == 0


async def test_servers_on_a_host_that_leaves_are_counted(cloud: Cloud) -> None:
    for _ in range(2):
        cloud.world.add_server(cloud.name, vm_state="building")
    await cloud.registered(*ALONE, spec=LEAVING)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        shown = await reported(cloud, "Offboarded", "still has 2 running VMs")
    assert reason(shown, "Offboarded") == "False/Offboarding"
    assert sum(cloud.script.count(calls) for calls in FORGETS) == 0


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ("compute DELETE /os-services/{id}", "cannot delete service"),
        ("placement GET /resource_providers/{id}", "cannot get resource provider"),
        ("placement DELETE /resource_providers/{id}", "cannot clean up resource provider"),
        ("placement GET /resource_providers/{id}/allocations", "cannot clean up resource provider"),
    ],
)
async def test_host_that_openstack_refuses_to_delete_is_named_until_it_does(
    cloud: Cloud, calls: str, words: str
) -> None:
    keep_provider(cloud)
    fault = cloud.fail(calls)
    await cloud.registered(*ALONE, spec=LEAVING)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        shown = await reported(cloud, "Offboarded", f"{words}: ", "500")
        assert reason(shown, "Offboarded") == "False/Offboarding"
        cloud.script.faults.remove(fault)
        await reported(cloud, "Offboarded", "Offboarding successful")


async def test_provider_that_is_in_use_is_not_cleaned_up(cloud: Cloud) -> None:
    keep_provider(cloud, consumer=UUID)
    await cloud.registered(*ALONE, spec=LEAVING)
    async with operator(cloud.kubeconfig, cloud.nova(), lifecycle=QUICK):
        await reported(cloud, "Offboarded", "cannot clean up resource provider: ", UUID)
    assert cloud.script.count("placement DELETE *") == 0
