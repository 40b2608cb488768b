"""Compute services: taken out of service, declared dead."""

from __future__ import annotations

from functools import partial

from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import DISABLED, provider_id, service, set_service, traits
from tests.openstack.servers import VERSION, Servers, until


async def test_a_disabled_service_shows_as_a_trait_of_its_provider(
    cloud: Cloud, admin: Session
) -> None:
    host = cloud.hosts[0]
    provider = await provider_id(admin, host)

    shown = await set_service(admin, host, status="disabled", disabled_reason="maintenance")
    try:
        assert (shown["status"], shown["disabled_reason"]) == ("disabled", "maintenance")
        assert shown["state"] == "up"
        await until(lambda: traits(admin, provider), lambda found: DISABLED in found)
    finally:
        shown = await set_service(admin, host, status="enabled")
    assert (shown["status"], shown["disabled_reason"]) == ("enabled", None)
    await until(lambda: traits(admin, provider), lambda found: DISABLED not in found)


async def test_the_scheduler_avoids_a_disabled_host(
    cloud: Cloud, servers: Servers, disabled: str
) -> None:
    for server in [await servers.boot() for _ in range(2)]:
        assert await servers.host(server) != disabled


async def test_a_server_that_must_start_on_a_disabled_host_is_accepted_and_fails(
    servers: Servers, disabled: str
) -> None:
    server = await servers.create(host=disabled)

    shown = await servers.until(server, lambda s: s["status"] != "BUILD")

    assert shown["status"] == "ERROR"
    assert "No valid host" in shown["fault"]["message"]


async def test_a_service_that_is_forced_down_is_down_at_once_though_it_lives(
    cloud: Cloud, admin: Session
) -> None:
    host = cloud.hosts[0]
    assert (await service(admin, host))["state"] == "up"

    shown = await set_service(admin, host, forced_down=True)
    try:
        assert (shown["state"], shown["forced_down"]) == ("down", True)
        assert (await service(admin, host))["state"] == "down"
    finally:
        shown = await set_service(admin, host, forced_down=False)
    assert (shown["state"], shown["status"], shown["forced_down"]) == ("up", "enabled", False)


async def test_services_have_uuids_and_the_time_of_their_last_report(
    cloud: Cloud, admin: Session
) -> None:
    for host in cloud.hosts:
        # A service that has just started has not reported yet.
        found = await until(partial(service, admin, host), lambda s: s["updated_at"])
        assert len(found["id"]) == 36
        assert found["binary"] == "nova-compute"


async def test_a_reason_without_disabling_is_refused(cloud: Cloud, admin: Session) -> None:
    found = await service(admin, cloud.hosts[0])
    body = {"status": "enabled", "disabled_reason": "none"}
    path = f"/os-services/{found['id']}"

    assert (await admin("compute", "PUT", path, body, version=VERSION)).code == 400


async def test_services_are_for_administrators_only(tester: Session) -> None:
    assert (await tester("compute", "GET", "/os-services", version=VERSION)).code == 403
