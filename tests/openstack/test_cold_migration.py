"""Cold migration: of servers that do not run, and of those that may be switched off."""

from __future__ import annotations

from tests.openstack.client import Json, Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import provider_id, service
from tests.openstack.servers import PLACEMENT, VERSION, Servers, until


async def _stopped(servers: Servers, host: str) -> str:
    """A server that does not run."""
    server = await servers.boot(host=host)
    (await servers.act(server, {"os-stop": None})).ok()
    await servers.until(server, lambda s: s["status"] == "SHUTOFF")
    return server


async def test_a_stopped_server_moves_and_is_stopped_again_once_confirmed(
    cloud: Cloud, servers: Servers
) -> None:
    source, target = cloud.hosts[:2]
    server = await _stopped(servers, source)

    assert (await servers.act(server, {"migrate": None})).code == 202

    shown = await servers.until(server, lambda s: s["status"] in {"VERIFY_RESIZE", "ERROR"})
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("VERIFY_RESIZE", target)
    record = await servers.until_migrated(server, "finished")
    assert (record["migration_type"], record["source_compute"], record["dest_compute"]) == (
        *("migration", source, target),
    )
    assert (await servers.act(server, {"confirmResize": None})).code == 204
    await servers.until(server, lambda s: s["status"] == "SHUTOFF")
    await servers.until_migrated(server, "confirmed")
    assert await servers.host(server) == target


async def test_a_running_server_runs_again_at_the_target(cloud: Cloud, servers: Servers) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source)

    assert (await servers.act(server, {"migrate": {"host": target}})).code == 202

    await servers.until(server, lambda s: s["status"] == "VERIFY_RESIZE")
    (await servers.act(server, {"confirmResize": None})).ok()
    shown = await servers.until(server, lambda s: s["status"] == "ACTIVE")
    assert shown["OS-EXT-SRV-ATTR:host"] == target


async def test_allocation_at_the_source_is_held_until_the_move_is_confirmed(
    cloud: Cloud, admin: Session, servers: Servers
) -> None:
    source, target = cloud.hosts[:2]
    server = await _stopped(servers, source)

    async def holders(host: str) -> Json:
        path = f"/resource_providers/{await provider_id(admin, host)}/allocations"
        return (await admin("placement", "GET", path, version=PLACEMENT)).ok()["allocations"]

    (await servers.act(server, {"migrate": None})).ok()
    record = await servers.until_migrated(server, "finished")

    # The migration has at the source what the server had.
    assert record["uuid"] in await holders(source)
    assert server in await holders(target)
    path = f"/os-services/{(await service(admin, source))['id']}"
    refused = await admin("compute", "DELETE", path, version=VERSION)
    assert refused.code == 409
    assert "in-progress migrations" in refused.body["conflictingRequest"]["message"]
    (await servers.act(server, {"confirmResize": None})).ok()
    await until(lambda: holders(source), lambda found: record["uuid"] not in found)


async def test_server_without_a_valid_host_stays_as_it_was(
    cloud: Cloud, servers: Servers, disabled: str
) -> None:
    source = next(host for host in cloud.hosts if host != disabled)
    server = await servers.boot(host=source)

    assert (await servers.act(server, {"migrate": None})).code == 202

    await servers.until_migrated(server, "error")
    shown = await servers.until(server, lambda s: s["OS-EXT-STS:task_state"] is None)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", source)


async def test_invalid_actions_are_refused(cloud: Cloud, servers: Servers) -> None:
    server = await servers.boot(host=cloud.hosts[0])

    here = {"migrate": {"host": cloud.hosts[0]}}
    wrong: tuple[Json, ...] = (here, {"os-pause": None}, {"no": {}}, {}, [])
    for action in wrong:
        assert (await servers.act(server, action)).code == 400, action
    assert (await servers.act(server, {"confirmResize": None})).code == 409
