"""A host of Nova that dies: proven dead, its servers evacuated, and taken back when it has booted.

Everything that the operator reports is checked with the cloud itself. There is no fence device that
works: a person has looked, and asserts that the host is off.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.operator.agents import Agent
from tests.openstack.client import Json, Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import service, until_back
from tests.openstack.operator.conftest import Cluster, condition, operator
from tests.openstack.servers import VERSION, Servers, until

from hypercobalt.api.eviction import Eviction
from hypercobalt.api.fencing import ASSERTED_DEAD, FencingPhase
from hypercobalt.api.hypervisor import Hypervisor

DEVICES = """\
devices:
- name: bmc
  agent: fence_redfish
  parameters: {{ip: 127.0.0.1}}
  hosts: {{{0}: {{ipport: "1"}}, {1}: {{ipport: "2"}}}}
  identity: ignored
  timeoutSeconds: 5
"""
FIRST, SECOND = "boot-1", "boot-2"
FLAGS = (
    *("--ha=internal", "--test-aggregate=", "--fence-namespace=monsoon3"),
    "--evacuate-local-disks",  # they lie where all hosts see them
    *("--ha-timeout=5s", "--ha-peer-timeout=1s", "--ha-healthy-delay=1s"),
)


@pytest.fixture
async def doomed(
    cloud: Cloud, admin: Session, fresh_hosts: tuple[str, str]
) -> AsyncIterator[tuple[str, str]]:
    """A host that may die, and another one; it serves again afterwards."""
    yield fresh_hosts
    host = fresh_hosts[0]
    await cloud.restore(host)

    async def clear() -> int:
        path = f"/os-services/{(await service(admin, host))['id']}"
        return (await admin("compute", "PUT", path, {"forced_down": False}, version=VERSION)).code

    await until(clear, lambda code: code == 200)
    await until_back(admin, host)


async def _asserts_its_end(cluster: Cluster, host: str) -> None:
    def asserted(found: Hypervisor) -> Hypervisor:
        notes = {**found.metadata.annotations, ASSERTED_DEAD: FIRST}
        return replace(found, metadata=replace(found.metadata, annotations=notes))

    assert await cluster.kube.modify(Hypervisor, host, asserted) is not None


@pytest.mark.timeout(600, func_only=True)  # Nova misses a host after a minute
async def test_servers_of_a_dead_host_are_as_they_were_elsewhere_and_the_host_comes_back(  # noqa: PLR0917 - fixtures
    cloud: Cloud,
    cluster: Cluster,
    admin: Session,
    servers: Servers,
    doomed: tuple[str, str],
    tmp_path: Path,
) -> None:
    host, other = doomed
    devices = tmp_path / "devices.yaml"
    devices.write_text(DEVICES.format(host, other))
    flags = (*FLAGS, f"--fence-devices={devices}")
    agents = {name: Agent(cluster.kube, name) for name in doomed}
    async with operator(cluster, cloud, tmp_path / "operator.log", *flags):
        for name in doomed:
            await cluster.add_node(name, tested=False)
            await cluster.boots(name, FIRST)
            await cluster.until(name, lambda hv: bool(hv.status.serviceId))
            await agents[name].renews()
            await cluster.agent_reports(name, FIRST)
        for name in doomed:
            await cluster.until(name, lambda hv: condition(hv, "Ready") == "True/Ready")
        ran, off = await servers.boot(host=host), await servers.boot(host=host)
        (await servers.act(off, {"os-stop": None})).ok()
        await servers.until(off, lambda s: s["status"] == "SHUTOFF")

        await cloud.crash(host)
        await agents[host].renews(lasts=1)
        await cluster.boots(host, FIRST, ready="Unknown")
        await _asserts_its_end(cluster, host)

        dead = await cluster.until(host, lambda hv: condition(hv, "Fenced") == "True/Proven")
        assert dead.status.fencing is not None
        assert (dead.status.fencing.method, dead.status.fencing.bootID) == ("External", FIRST)
        for server, status in ((ran, "ACTIVE"), (off, "SHUTOFF")):
            shown = await servers.until(server, lambda s: _is_on(s, other), within=240)
            assert shown["status"] == status
            record = await servers.until_migrated(server, "done")
            assert record["migration_type"] == "evacuation"
            await servers.until(server, lambda s: not s["locked"])
            assert (await servers.actions(server))[:3] == ["unlock", "evacuate", "lock"]
        # Another controller disables it, which an evacuation does not wait for.
        found = await until(lambda: service(admin, host), lambda one: one["status"] == "disabled")
        assert (found["forced_down"], found["disabled_reason"]) == (
            *(True, "Hypervisor CRD: spec.maintenance=ha"),
        )
        assert (await service(admin, other))["status"] == "enabled"

        await cloud.restore(host)
        await cluster.boots(host, SECOND)
        await agents[host].renews()
        await cluster.agent_reports(host, SECOND)

        back = await cluster.until(host, lambda hv: condition(hv, "Ready") == "True/Ready")
        assert back.status.fencing is not None
        assert back.status.fencing.phase == FencingPhase.RELEASED
        found = await until(
            lambda: service(admin, host), lambda one: one["status"] == "enabled", within=240
        )
        assert not found["forced_down"]
        assert (await cluster.kube.list(Eviction)).items == []
        for server in (ran, off):
            await servers.until_migrated(server, "completed")


def _is_on(server: Json, host: str) -> bool:
    there = server["OS-EXT-SRV-ATTR:host"] == host
    return there and server["OS-EXT-STS:task_state"] is None
