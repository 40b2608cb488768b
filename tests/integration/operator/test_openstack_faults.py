"""Hosts come into service through an OpenStack that fails on the way, and conditions report how."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
import trustme
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.eviction_world import state, words
from tests.integration.operator.lifecycle import QUICK, agent_reports, set_spec
from tests.integration.operator.service import GENERAL, SKIP
from tests.integration.operator.simulated import SimulatedCloud, served, world_of
from tests.integration.runtime.scripted import eventually
from tests.simulated_openstack.http import Request
from tests.simulated_openstack.identity import ELSEWHERE, REGION
from tests.simulated_openstack.script import Fault

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.core import Node
from hypercobalt.api.eviction import Eviction
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.shared.node_facts import TRAITS_ANNOTATION
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

WISHES = GENERAL | {TRAITS_ANNOTATION: "CUSTOM_A"}
TOKENS = "identity POST /auth/tokens"
READS = (
    "compute GET /",
    "compute GET /os-hypervisors/detail",
    "compute GET /os-aggregates",
    "placement GET ",
    "placement GET /resource_providers/{id}/traits",
)
WRITES = (
    "compute PUT /os-services/{id}",
    "compute POST /os-aggregates/{id}/action add_host",
    "placement PUT /resource_providers/{id}/traits",
)


class Faulty(SimulatedCloud):
    """One that fails, with one host that is disabled, and a Node for it."""

    async def onboard(self) -> Hypervisor:
        """Run an operator until the host is in service."""
        async with operator(self.kubeconfig, self.nova(), lifecycle=QUICK):
            return await self.ready()

    async def ready(self) -> Hypervisor:
        """Wait until the host is in service, with its node agent."""
        await until(self.kube, Hypervisor, self.name, lambda _: True)
        await agent_reports(self.kube, self.name)
        return await until(self.kube, Hypervisor, self.name, is_ready)

    async def reported(self, *words: str) -> Hypervisor:
        """Wait until a condition has those words in its message."""

        def has_words(hypervisor: Hypervisor) -> bool:
            texts = [c.message for c in hypervisor.conditions if c.type != "Ready"]
            return any(all(word in text for word in words) for text in texts)

        return await until(self.kube, Hypervisor, self.name, has_words)

    def check(self, made: Hypervisor) -> None:
        """OpenStack has what the Node requests, and the status reports no failure."""
        assert self.inside == {"zone-a", "general"}
        assert "CUSTOM_A" in self.host.traits
        assert self.host.enabled
        assert made.status.serviceId == self.host.service_id
        assert reason(made, "Onboarding") == "False/Succeeded"
        for type_ in ("Registered", "TraitsUpdated", "AggregatesUpdated"):
            found = get_condition(made.conditions, type_)
            assert found is not None
            assert found.status == "True", found


def is_ready(hypervisor: Hypervisor) -> bool:
    enabled = reason(hypervisor, "HypervisorDisabled") == "False/Succeeded"
    return enabled and reason(hypervisor, "Ready") == "True/Ready"


@pytest_asyncio.fixture(loop_scope="session")
async def site(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Faulty]:
    async with served(monkeypatch, world_of(name)) as simulation:
        await add_node(kube, name, labels=SKIP, annotations=WISHES)
        yield Faulty(simulation, kube, kubeconfig, name)


@pytest.mark.parametrize("call", [*READS, *WRITES])
async def test_a_token_that_expires_on_the_way_is_renewed_and_nothing_is_lost(
    site: Faulty, call: str
) -> None:
    expired = list[str]()

    def expire(request: Request) -> None:
        if not expired:
            expired.append(request.path)
            site.simulation.tokens.revoke_all()

    site.script.before(call, expire)
    made = await site.onboard()
    assert expired
    site.check(made)
    assert site.script.count(TOKENS) == 2
    for write in WRITES:
        wanted = 3 if "add_host" in write else 1  # its zone, the test aggregate, its own
        assert site.script.count(write) - (write == call) == wanted, write


@pytest.mark.parametrize("body", [b"<html>Please sign in</html>", b'{"cut": ["o'])
@pytest.mark.parametrize("call", READS)
async def test_an_unreadable_answer_is_reported_and_waited_out(
    site: Faulty, call: str, body: bytes
) -> None:
    fault = site.script.add(Fault(call, code=200, body=body))
    async with operator(site.kubeconfig, site.nova(), lifecycle=QUICK):
        await until(site.kube, Hypervisor, site.name, lambda _: True)
        await agent_reports(site.kube, site.name)
        await site.reported("cannot be read")
        site.script.faults.remove(fault)
        site.check(await site.ready())


@pytest.mark.parametrize("call", [call for call in READS if "{id}" in call or "os-" in call])
async def test_a_read_that_is_refused_is_reported_and_waited_out(site: Faulty, call: str) -> None:
    fault = site.script.add(Fault(call, code=403))
    async with operator(site.kubeconfig, site.nova(), lifecycle=QUICK):
        await until(site.kube, Hypervisor, site.name, lambda _: True)
        await agent_reports(site.kube, site.name)
        await site.reported("403")
        site.script.faults.remove(fault)
        site.check(await site.ready())


async def test_aggregates_that_cannot_be_listed_hold_up_no_maintenance(site: Faulty) -> None:
    async with operator(site.kubeconfig, site.nova(), lifecycle=QUICK):
        await site.ready()
        site.script.add(Fault("compute GET /os-aggregates", code=403))
        await set_spec(site.kube, site.name, maintenance="manual", maintenanceReason="fan")
        held = await until(site.kube, Hypervisor, site.name, lambda hv: bool(hv.status.evicted))
        assert not site.host.enabled
        shown = await site.reported("failed to apply aggregates", "403")
        assert reason(shown, "AggregatesUpdated") == "False/Failed"
        assert reason(held, "HypervisorDisabled") == "True/Succeeded"


@pytest.mark.parametrize("call", WRITES)
async def test_a_page_in_place_of_an_answer_is_not_taken_for_done(site: Faulty, call: str) -> None:
    site.script.add(Fault(call, code=200, body=b"<html>Please sign in</html>", times=3))
    site.check(await site.onboard())


@pytest.mark.parametrize("call", WRITES)
async def test_change_whose_answer_was_lost_is_found_done(site: Faulty, call: str) -> None:
    site.script.add(Fault(call, cut=True, after=True, times=1))
    site.check(await site.onboard())


async def test_openstack_away_at_the_start_is_a_condition_and_waited_for(site: Faulty) -> None:
    fault = site.script.add(Fault(cut=True))
    nova = site.nova()
    async with operator(site.kubeconfig, nova, lifecycle=QUICK):
        reported = await site.reported(
            "Cannot read the host from the compute service", "Keystone does not answer"
        )
        assert reason(reported, "Registered") == "Unknown/Unreachable"
        await eventually(lambda: "Keystone does not answer" in nova.trouble)  # after five failures
        site.script.faults.remove(fault)
        site.check(await site.ready())
        assert nova.trouble == ""


async def test_openstack_away_in_between_leaves_a_host_in_service(site: Faulty) -> None:
    async with operator(site.kubeconfig, site.nova(), lifecycle=QUICK):
        await site.ready()
        fault = site.script.add(Fault("compute *", code=503))
        away = await site.reported("Cannot read the host from the compute service", "503")
        assert reason(away, "Registered") == "Unknown/Unreachable"
        assert reason(away, "Onboarding") == "False/Succeeded"
        assert away.status.serviceId == site.host.service_id
        site.script.faults.remove(fault)
        back = await until(
            site.kube, Hypervisor, site.name, lambda hv: reason(hv, "Registered")[:4] == "True"
        )
    site.check(back)


async def test_an_ingress_without_a_backend_neither_ends_an_eviction_nor_empties_a_host(
    site: Faulty,
) -> None:
    world = site.world
    world.pace.live = 3.0
    world.add_host("target")
    async with operator(site.kubeconfig, site.nova(), lifecycle=QUICK):
        await site.ready()
        server = world.add_server(site.name)
        await set_spec(site.kube, site.name, maintenance="auto")
        await until(
            site.kube,
            Eviction,
            site.name,
            lambda e: any(one.phase == "Migrating" for one in e.status.instances),
        )
        fault = site.script.add(Fault("compute *", code=404, body=b"default backend - 404"))
        await until(
            site.kube,
            Eviction,
            site.name,
            lambda e: "not JSON" in words(e) and state(e) == "True/Running",
        )
        site.script.faults.remove(fault)
        await until(site.kube, Hypervisor, site.name, lambda hv: bool(hv.status.evicted))
        done = await site.kube.get(Eviction, site.name)
    assert done is not None
    assert state(done) == "False/Succeeded"
    assert server.host == "target"


async def test_a_wrong_region_is_reported_with_those_that_there_are(
    site: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_REGION_NAME", "Nowhere")
    async with operator(site.kubeconfig, site.nova(), lifecycle=QUICK):
        reported = await site.reported("region Nowhere", REGION, ELSEWHERE, "OS_REGION_NAME")
        assert reason(reported, "Registered") == "Unknown/Unreachable"


async def test_a_wrong_authority_is_reported_and_a_right_one_taken(
    kube: Kube, kubeconfig: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, trusted, mine = trustme.CA(), tmp_path / "ca.pem", tmp_path / "server.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(mine)
    trustme.CA().cert_pem.write_to_path(trusted)
    world, cacert = world_of(name), str(trusted)
    async with served(monkeypatch, world, certificate=mine, OS_CACERT=cacert) as simulation:
        await add_node(kube, name, labels=SKIP, annotations=WISHES)
        site = Faulty(simulation, kube, kubeconfig, name)
        async with operator(kubeconfig, site.nova(), lifecycle=QUICK):
            reported = await site.reported("certificate is not accepted", "OS_CACERT")
            assert reason(reported, "Registered") == "Unknown/Unreachable"
            assert simulation.script.count() == 0
            authority.cert_pem.write_to_path(trusted)
            site.check(await site.ready())


def has_applied(traits: str) -> Callable[[Hypervisor], bool]:
    return lambda hv: ",".join(hv.status.appliedTraits or ()) == traits


async def test_a_provider_whose_generation_changes_is_read_again_before_each_change(
    site: Faulty,
) -> None:
    """nova-compute reports its inventory all the time, and each report is a new generation."""
    put, moves = "placement PUT /resource_providers/{id}/traits", 2

    def report(_request: Request | None = None) -> None:
        memory = site.host.inventory["MEMORY_MB"]
        site.host.inventory["MEMORY_MB"] = replace(memory, total=memory.total + 512)
        site.host.generation += 1

    def in_between(request: Request) -> None:
        if site.script.count(put) <= moves:
            report(request)

    site.world.custom_traits.add("CUSTOM_B")
    site.script.before(put, in_between)
    async with operator(site.kubeconfig, site.nova(), lifecycle=QUICK):
        site.check(await site.ready())
        assert site.script.count(put) == moves + 1  # moves that came too late are decided again
        for wanted in ("CUSTOM_A,CUSTOM_B", "CUSTOM_A"):
            report()
            before = site.script.count(put)
            patch = {"metadata": {"annotations": {TRAITS_ANNOTATION: wanted}}}
            await site.kube.merge_patch(Node, site.name, patch)
            made = await until(site.kube, Hypervisor, site.name, has_applied(wanted))
            assert site.script.count(put) == before + 1  # none with what was known before
        site.check(made)
