"""A host's whole life: into Nova, emptied, back in service, emptied again, and out of Nova.

Everything that the operator reports is checked with the cloud itself.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest
from tests.openstack.client import Json, Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import hypervisors, provider_id, service, traits
from tests.openstack.operator.conftest import (
    AGGREGATE,
    TEST_AGGREGATE,
    TRAIT,
    WITHIN,
    ZONE,
    Cluster,
    condition,
    operator,
)
from tests.openstack.servers import PLACEMENT, VERSION, Servers, until

from hypercobalt.api.eviction import Eviction


async def _aggregates(admin: Session) -> Json:
    """Hosts of each aggregate, by name."""
    answer = await admin("compute", "GET", "/os-aggregates", version=VERSION)
    return {one["name"]: sorted(one["hosts"]) for one in answer.ok()["aggregates"]}


async def _flavor(admin: Session, name: str) -> str:
    answer = await admin("compute", "GET", "/flavors", version=VERSION)
    return next(str(one["id"]) for one in answer.ok()["flavors"] if one["name"] == name)


@pytest.mark.timeout(600, func_only=True)  # a life takes a minute and a half; others work here too
async def test_a_host_is_onboarded_evicted_and_offboarded(  # noqa: PLR0917 - fixtures
    cloud: Cloud,
    cluster: Cluster,
    admin: Session,
    servers: Servers,
    fresh_hosts: tuple[str, str],
    tmp_path: Path,
) -> None:
    host, other = fresh_hosts
    image = f"smoke-{uuid4()}"
    flags = (
        "--test-project=test",
        "--test-project-domain=Default",
        f"--test-flavor={await _flavor(admin, cloud.names.flavor)}",
        f"--test-image={image}",
        "--test-network=none",
        "--test-volume-gib=0",
    )
    async with operator(cluster, cloud, tmp_path / "operator.log", *flags):
        await _take_in(cloud, cluster, admin, image, host, other)
        await _empty_and_bring_back(cluster, admin, servers, host, other)
        await _call_off_maintenance(cloud, cluster, admin, servers, host)
        await cloud.share_disks(False)
        try:
            await _empty_with_disks(cloud, cluster, admin, servers, host, other)
        finally:
            await servers.remove_all()
            await cloud.share_disks(True)
        await _let_go(cluster, admin, servers, host, other)


async def _take_in(  # noqa: PLR0917 - fixtures
    cloud: Cloud, cluster: Cluster, admin: Session, image: str, host: str, other: str
) -> None:
    await cluster.add_node(host, tested=True)
    await cluster.add_node(other, tested=False)
    known = await cluster.until(host, lambda hv: bool(hv.status.serviceId))
    assert known.status.hypervisorId == await provider_id(admin, host)
    assert known.status.serviceId == (await service(admin, host))["id"]
    # What the server's first boot would print comes from its image here.
    await cloud.add_image(image, f"ohooc--{host}-{known.metadata.uid}")
    for name in (host, other):
        await cluster.agent_reports(name)

    await cluster.until(host, lambda hv: condition(hv, "Onboarding") == "True/Testing")
    assert host in (await _aggregates(admin))[TEST_AGGREGATE]
    for name in (host, other):
        await cluster.until(name, lambda hv: condition(hv, "Ready") == "True/Ready")

    assert await _aggregates(admin) == {
        ZONE: sorted([host, other]),
        AGGREGATE: sorted([host, other]),
        TEST_AGGREGATE: [],
    }
    for name in (host, other):
        found = await service(admin, name)
        assert (found["status"], found["zone"]) == ("enabled", ZONE)
        assert TRAIT in await traits(admin, await provider_id(admin, name))
    # Deleted, the server of the smoke test is seen for a moment more.
    await until(lambda: _everything(admin), lambda found: found == set())


async def _on(admin: Session, host: str) -> set[str]:
    return await _everything(admin, f"&host={host}")


async def _everything(admin: Session, query: str = "") -> set[str]:
    """Ids of the servers of all projects."""
    path = f"/servers?all_tenants=1{query}"
    answer = await admin("compute", "GET", path, version=VERSION)
    return {one["id"] for one in answer.ok()["servers"]}


async def _empty_and_bring_back(
    cluster: Cluster, admin: Session, servers: Servers, host: str, other: str
) -> None:
    running = [await servers.boot(host=host) for _ in range(2)]
    stopped = await servers.boot(host=host)
    (await servers.act(stopped, {"os-stop": None})).ok()
    await servers.until(stopped, lambda s: s["status"] == "SHUTOFF")
    await _migrate_and_revert(servers, stopped, host)

    await cluster.change(host, maintenance="manual", maintenanceReason="fan")
    found = await cluster.until(host, lambda hv: bool(hv.status.evicted))

    assert condition(found, "Evicting") == "False/Succeeded"
    assert condition(found, "Ready") == "False/Evicted"
    shown = await service(admin, host)
    assert (shown["status"], shown["disabled_reason"]) == (
        *("disabled", "Hypervisor CRD: spec.maintenance=manual"),
    )
    assert await _on(admin, host) == set()
    assert await _on(admin, other) == {*running, stopped}
    for server in running:
        record = await servers.until_migrated(server, "completed")
        assert record["migration_type"] == "live-migration"
        assert (await servers.show(server))["status"] == "ACTIVE"
    await servers.until_migrated(stopped, "confirmed")
    assert (await servers.show(stopped))["status"] == "SHUTOFF"

    await _bring_back(cluster, admin, host)
    await servers.remove_all()


async def _migrate_and_revert(servers: Servers, server: str, host: str) -> None:
    """Move a server away and revert: its newest migration from the host is a reverted one."""
    (await servers.act(server, {"migrate": None})).ok()
    await servers.until(server, lambda s: s["status"] == "VERIFY_RESIZE")
    (await servers.act(server, {"revertResize": None})).ok()
    await servers.until_migrated(server, "reverted")
    back = await servers.until(server, lambda s: s["status"] == "SHUTOFF")
    assert back["OS-EXT-SRV-ATTR:host"] == host


async def _call_off_maintenance(
    cloud: Cloud, cluster: Cluster, admin: Session, servers: Servers, host: str
) -> None:
    """Call off a maintenance half-way: a server on its way stays, and can be used."""
    guest = await servers.boot(host=host, image=cloud.names.guest)
    await until(lambda: servers.beats(guest), lambda n: n >= 1)
    await cloud.hinder(guest)

    await cluster.change(host, maintenance="manual")
    await servers.until_migrated(guest, "running")
    await _bring_back(cluster, admin, host)
    await until(lambda: cluster.kube.get(Eviction, host), lambda found: found is None)

    assert (await servers.migrations(guest))[0]["status"] in {"cancelled", "error"}
    shown = await servers.show(guest)
    assert (shown["status"], shown["OS-EXT-STS:task_state"]) == ("ACTIVE", None)
    assert (shown["OS-EXT-SRV-ATTR:host"], shown["OS-EXT-STS:power_state"]) == (host, 1)
    (await servers.act(guest, {"pause": None})).ok()
    await servers.until(guest, lambda s: s["status"] == "PAUSED")
    await servers.remove_all()


async def _bring_back(cluster: Cluster, admin: Session, host: str) -> None:
    await cluster.change(host, maintenance="")
    # Ready is about the requested maintenance; this is about Nova.
    found = await cluster.until(
        host, lambda hv: condition(hv, "HypervisorDisabled").startswith("False/")
    )
    assert condition(found, "Ready") == "True/Ready"
    assert (await service(admin, host))["status"] == "enabled"


async def _empty_with_disks(  # noqa: PLR0917 - fixtures
    cloud: Cloud, cluster: Cluster, admin: Session, servers: Servers, host: str, other: str
) -> None:
    """The same with disks that lie on the host alone: they are copied."""
    guest = await servers.boot(host=host, image=cloud.names.guest)
    before = await until(lambda: servers.beats(guest), lambda n: n >= 1)

    await cluster.change(host, maintenance="auto")
    await cluster.until(host, lambda hv: bool(hv.status.evicted))

    assert await servers.host(guest) == other
    record = await servers.until_migrated(guest, "completed")
    assert record["migration_type"] == "live-migration"
    await until(lambda: servers.beats(guest), lambda n: n > before)
    await _bring_back(cluster, admin, host)


async def _let_go(
    cluster: Cluster, admin: Session, servers: Servers, host: str, other: str
) -> None:
    server = await servers.boot(host=host)
    provider = await provider_id(admin, host)

    await cluster.change(host, maintenance="termination")
    found = await cluster.until(host, lambda hv: condition(hv, "Offboarded").startswith("True/"))

    assert condition(found, "Ready") == "False/Offboarded"
    assert await servers.host(server) == other
    assert set(await hypervisors(admin)) == {other}
    assert all(host not in hosts for hosts in (await _aggregates(admin)).values())
    path = f"/resource_providers/{provider}"
    # Its nova-compute, which runs on, may make it once more: the operator looks after a minute.
    await until(
        lambda: admin("placement", "GET", path, version=PLACEMENT),
        lambda answer: answer.code == 404,
        WITHIN,
    )
    async with asyncio.timeout(WITHIN):
        await servers.remove_all()
