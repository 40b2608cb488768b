"""The smoke test end to end, on a real API server and a simulated OpenStack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import pytest_asyncio
from tests.integration.compute.conftest import Adapter
from tests.integration.operator.conftest import add_node, operator, reason, until
from tests.integration.operator.lifecycle import QUICK, TEST_AGGREGATE, agent_reports, message
from tests.integration.operator.service import GENERAL, TESTED, is_ready
from tests.integration.operator.simulated import SimulatedCloud, served, world_of
from tests.simulated_openstack.http import Request

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.compute.nova.settings import SmokeSettings
from hypercobalt.runtime import Kube

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.any_api]

BOOT = "compute POST /servers"
NEW = "New compute service disabled due to config option."


@dataclass(slots=True)
class Booted:
    """A test server at the moment of its request."""

    aggregates: set[str]
    enabled: bool
    project: str
    volumes: list[tuple[int, str]]


@dataclass(slots=True)
class NewHost(SimulatedCloud):
    """One with a new host, and a Node for it."""

    booted: list[Booted] = field(default_factory=list[Booted])

    def note(self, _request: Request) -> None:
        """Record the state of the cloud when a server is requested."""
        host = self.host
        (server,) = self.world.servers.values()
        volumes = [(one.size, one.kind) for one in self.world.volumes.values()]
        project = self.world.projects[server.project]
        whose = f"{project.domain}/{project.name}"
        self.booted.append(Booted(self.inside, host.enabled, whose, volumes))

    async def ready(self) -> Hypervisor:
        return await until(self.kube, Hypervisor, self.name, is_ready)


@pytest_asyncio.fixture(loop_scope="session")
async def site(
    kube: Kube, kubeconfig: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[NewHost]:
    async with served(monkeypatch, world_of(name)) as simulation:
        simulation.world.hosts[name].disabled_reason = NEW
        await add_node(kube, name, labels=TESTED, annotations=GENERAL)
        made = NewHost(simulation, kube, kubeconfig, name)
        simulation.script.after(BOOT, made.note)
        yield made


@pytest.mark.parametrize(
    ("settings", "volumes"),
    [
        pytest.param(SmokeSettings(), [(64, "premium")], id="from a volume"),
        pytest.param(
            SmokeSettings(volume_gib=1, volume_type=""), [(1, "default")], id="of the default type"
        ),
        pytest.param(SmokeSettings(volume_gib=0), [], id="from the image"),
    ],
)
async def test_a_new_host_boots_a_test_server_before_users_may_and_leaves_nothing(
    site: NewHost, kubeconfig: Path, settings: SmokeSettings, volumes: list[tuple[int, str]]
) -> None:
    nova = Adapter(site.simulation).nova(smoke=settings)
    async with operator(kubeconfig, nova, lifecycle=QUICK):
        await until(site.kube, Hypervisor, site.name, lambda _: True)
        await agent_reports(site.kube, site.name)
        made = await site.ready()
    assert site.booted == [Booted({"zone-a", TEST_AGGREGATE}, True, "cc3test/test", volumes)]
    assert site.inside == {"zone-a", "general"}
    assert (site.world.servers, site.world.volumes) == ({}, {})
    assert made.status.smokeTest is None


async def test_a_volume_that_is_never_there_is_named_and_nothing_of_it_is_left(
    site: NewHost, kubeconfig: Path
) -> None:
    host = site.host
    host.refuses = "Build of instance aborted: Volume did not finish being created"
    nova = Adapter(site.simulation).nova(smoke=SmokeSettings())
    once = replace(QUICK, test_tries=2)
    async with operator(kubeconfig, nova, lifecycle=once):
        await until(site.kube, Hypervisor, site.name, lambda _: True)
        await agent_reports(site.kube, site.name)
        failed = await until(
            site.kube, Hypervisor, site.name, lambda hv: reason(hv, "Onboarding") == "False/Aborted"
        )
        assert "failed 2 times" in message(failed, "Onboarding")
        assert "Volume did not finish" in message(failed, "Onboarding")
        assert site.inside == {"zone-a", TEST_AGGREGATE}
    assert len(site.booted) == 2
    assert (site.world.servers, site.world.volumes) == ({}, {})
