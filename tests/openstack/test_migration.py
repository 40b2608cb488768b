"""Live migration, as Nova does it."""

from __future__ import annotations

import pytest

from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.servers import Servers, until


@pytest.mark.parametrize("named", [True, False], ids=["to a named host", "to the scheduler's"])
async def test_a_server_moves_while_it_runs(cloud: Cloud, servers: Servers, named: bool) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source)

    answer = await servers.live_migrate(server, target if named else None)

    assert answer.code == 202
    record = await servers.until_migrated(server, "completed")
    assert (record["migration_type"], record["source_compute"], record["dest_compute"]) == (
        "live-migration",
        source,
        target,
    )
    shown = await servers.show(server)
    assert shown["status"] == "ACTIVE"
    assert shown["OS-EXT-SRV-ATTR:host"] == target


async def test_without_a_target_the_record_ends_in_error_and_the_server_stays(
    cloud: Cloud, admin: Session, servers: Servers, disabled: str
) -> None:
    source = next(host for host in cloud.hosts if host != disabled)
    server = await servers.boot(host=source)

    answer = await servers.live_migrate(server, None)

    assert answer.code == 202
    record = await servers.until_migrated(server, "error")
    assert record["dest_compute"] is None
    shown = await servers.until(server, lambda s: s["OS-EXT-STS:task_state"] is None)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", source)


async def test_no_valid_host_is_a_400_until_2_30(
    cloud: Cloud, servers: Servers, disabled: str
) -> None:
    source = next(host for host in cloud.hosts if host != disabled)
    server = await servers.boot(host=source)

    answer = await servers.live_migrate(server, None, version="2.30")

    assert answer.code == 400
    assert "No valid host" in answer.body["badRequest"]["message"]


async def test_the_port_moves_with_its_server(
    cloud: Cloud, admin: Session, servers: Servers
) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source, network=cloud.names.network)

    async def port() -> tuple[str, str]:
        answer = await admin("network", "GET", f"/v2.0/ports?device_id={server}")
        (found,) = answer.ok()["ports"]
        return found["binding:host_id"], found["status"]

    assert await until(port, lambda p: p[1] == "ACTIVE") == (source, "ACTIVE")
    await servers.live_migrate(server, target)
    await servers.until_migrated(server, "completed")
    # The port status does not count: it may stay DOWN when OVN was quicker than the binding.
    await until(port, lambda p: p[0] == target)


async def test_a_guest_goes_on_where_it_was(cloud: Cloud, servers: Servers) -> None:
    source, target = cloud.hosts[:2]
    server = await servers.boot(host=source, image=cloud.names.guest)
    before = await until(lambda: servers.beats(server), lambda n: n >= 2)
    await servers.live_migrate(server, target)
    await servers.until_migrated(server, "completed")
    assert await until(lambda: servers.beats(server), lambda n: n > before) > before


async def test_guest_is_requested_to_stop(cloud: Cloud, servers: Servers) -> None:
    server = await servers.boot(image=cloud.names.guest)
    await until(lambda: servers.console(server), lambda text: ": alive 1" in text)
    assert (await servers.act(server, {"os-stop": None})).code == 202
    # A guest that ignores the request is switched off after 60 s.
    await servers.until(server, lambda s: s["status"] == "SHUTOFF", within=45)
