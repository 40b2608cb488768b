"""Hypervisors and the resource providers that stand for them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.computes import (
    DISABLED,
    hypervisors,
    provider_id,
    set_service,
    trait_document,
    traits,
)
from tests.openstack.servers import PLACEMENT, VERSION, Servers, until

_KEYS = {
    "host_ip",
    "hypervisor_hostname",
    "hypervisor_type",
    "hypervisor_version",
    "id",
    "servers",
    "service",
    "state",
    "status",
    "uptime",
}


async def test_hypervisor_has_no_sizes_since_2_88(
    cloud: Cloud, admin: Session, servers: Servers
) -> None:
    server = await servers.boot(host=cloud.hosts[0])

    found = await hypervisors(admin, "?with_servers=true")

    assert set(found) == set(cloud.hosts)
    here = found[cloud.hosts[0]]
    assert set(here) == _KEYS
    assert (here["state"], here["status"]) == ("up", "enabled")
    assert here["service"]["host"] == cloud.hosts[0]
    assert server in [one["uuid"] for one in here["servers"]]
    assert "load average" in here["uptime"]
    assert found[cloud.hosts[1]]["servers"] == []


async def test_a_pattern_is_any_part_of_the_name(cloud: Cloud, admin: Session) -> None:
    name = cloud.hosts[0]

    assert set(await hypervisors(admin, f"?hypervisor_hostname_pattern={name[:4]}")) == set(
        cloud.hosts
    )
    assert set(await hypervisors(admin, f"?hypervisor_hostname_pattern={name}")) == {name}
    path = "/os-hypervisors/detail?hypervisor_hostname_pattern="
    assert (await admin("compute", "GET", f"{path}no-such-host", version=VERSION)).code == 404
    assert (await admin("compute", "GET", f"{path}{name}&limit=1", version=VERSION)).code == 400


async def test_lists_come_in_pages(cloud: Cloud, admin: Session, servers: Servers) -> None:
    for _ in range(2):
        await servers.boot(host=cloud.hosts[0])

    async def pages(path: str, kind: str) -> list[int]:
        """Sizes of the pages of a list, with the ids seen checked to be all different."""
        sizes, seen, marker = [], set[str](), ""
        while True:
            answer = await admin("compute", "GET", f"{path}limit=1{marker}", version=VERSION)
            found = answer.ok()
            sizes.append(len(found[kind]))
            ids = {one["id"] for one in found[kind]}
            assert not ids & seen
            seen |= ids
            if f"{kind}_links" not in found:
                return sizes
            (link,) = found[f"{kind}_links"]
            assert link["rel"] == "next"
            marker = f"&marker={max(ids)}"

    assert sum(await pages("/os-hypervisors/detail?", "hypervisors")) == len(cloud.hosts)
    assert sum(await pages("/servers/detail?all_tenants=1&", "servers")) == 2


async def test_candidates_have_capacity_and_lack_what_is_forbidden(
    cloud: Cloud, admin: Session, disabled: str
) -> None:
    async def candidates(resources: str, query: str = "") -> dict[str, Any]:
        path = f"/allocation_candidates?resources={resources}{query}"
        found = (await admin("placement", "GET", path, version=PLACEMENT)).ok()
        assert len(found["allocation_requests"]) == len(found["provider_summaries"])
        return dict(found["provider_summaries"])

    everywhere = await candidates("VCPU:1,MEMORY_MB:192,DISK_GB:1")
    assert set(everywhere) == {await provider_id(admin, host) for host in cloud.hosts}
    for found in everywhere.values():
        assert found["resources"]["MEMORY_MB"]["capacity"] > found["resources"]["MEMORY_MB"]["used"]
    allowed = await candidates("VCPU:1", f"&required=!{DISABLED}")
    assert await provider_id(admin, disabled) not in allowed
    assert len(allowed) == len(cloud.hosts) - 1
    assert await candidates("VCPU:1000000") == {}
    assert len(await candidates("VCPU:1", "&limit=1")) == 1


async def test_hypervisor_has_sizes_before_2_88(cloud: Cloud, admin: Session) -> None:
    answer = await admin("compute", "GET", "/os-hypervisors/detail", version="2.87")

    for one in answer.ok()["hypervisors"]:
        assert one["memory_mb"] > 0
        assert one["vcpus"] > 0


async def test_servers_are_found_by_host_in_one_call(
    cloud: Cloud, admin: Session, servers: Servers
) -> None:
    server = await servers.boot(host=cloud.hosts[1])

    path = f"/servers/detail?all_tenants=1&host={cloud.hosts[1]}"
    answer = await admin("compute", "GET", path, version=VERSION)

    assert [one["id"] for one in answer.ok()["servers"]] == [server]


async def test_a_provider_has_the_name_and_id_of_its_hypervisor(
    cloud: Cloud, admin: Session
) -> None:
    for name, found in (await hypervisors(admin)).items():
        assert await provider_id(admin, name) == found["id"]


async def test_placement_has_sizes_and_usage_of_a_host(
    cloud: Cloud, admin: Session, servers: Servers
) -> None:
    provider = await provider_id(admin, cloud.hosts[0])

    async def used() -> dict[str, int]:
        path = f"/resource_providers/{provider}/usages"
        found: dict[str, int] = (await admin("placement", "GET", path, version=PLACEMENT)).ok()[
            "usages"
        ]
        return found

    path = f"/resource_providers/{provider}/inventories"
    inventories = (await admin("placement", "GET", path, version=PLACEMENT)).ok()["inventories"]
    assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= set(inventories)
    assert {"total", "reserved", "allocation_ratio"} <= set(inventories["VCPU"])
    before = await used()
    await servers.boot(host=cloud.hosts[0])
    after = await used()
    assert (after["VCPU"], after["MEMORY_MB"]) == (before["VCPU"] + 1, before["MEMORY_MB"] + 192)


async def test_a_custom_trait_stays(cloud: Cloud, admin: Session) -> None:
    provider = await provider_id(admin, cloud.hosts[0])
    assert (await admin("placement", "PUT", "/traits/CUSTOM_TEST", version=PLACEMENT)).code in {
        201,
        204,
    }

    async def write(change: str, *, wanted: bool) -> int:
        seen = await trait_document(admin, provider)
        names = {*seen["traits"], change} if wanted else {*seen["traits"]} - {change}
        body = seen | {"traits": sorted(names)}
        path = f"/resource_providers/{provider}/traits"
        return (await admin("placement", "PUT", path, body, version=PLACEMENT)).code

    # nova-compute writes to the provider too: 409 means read again.
    await until(lambda: write("CUSTOM_TEST", wanted=True), lambda code: code == 200)

    async def kept() -> list[str]:
        """Write it again where it is gone, as the operator does when it compares.

        nova-compute writes traits of its own meanwhile, now and then from a list that it read
        before: it takes the generation from the inventory, so Placement sees no conflict.
        """
        seen: list[str] = await traits(admin, provider)
        if "CUSTOM_TEST" not in seen:
            await write("CUSTOM_TEST", wanted=True)
        return seen

    await set_service(admin, cloud.hosts[0], status="disabled")
    await until(kept, lambda seen: {"CUSTOM_TEST", DISABLED} <= {*seen})
    await set_service(admin, cloud.hosts[0], status="enabled")
    await until(kept, lambda seen: "CUSTOM_TEST" in seen and DISABLED not in seen)
    await until(lambda: write("CUSTOM_TEST", wanted=False), lambda code: code == 200)
    assert "CUSTOM_TEST" not in await traits(admin, provider)
    assert (await admin("placement", "DELETE", "/traits/CUSTOM_TEST", version=PLACEMENT)).code in {
        204
    }


async def test_an_old_generation_of_a_provider_is_a_conflict(cloud: Cloud, admin: Session) -> None:
    provider = await provider_id(admin, cloud.hosts[0])
    seen = await trait_document(admin, provider)
    stale = seen | {"resource_provider_generation": seen["resource_provider_generation"] - 1}

    path = f"/resource_providers/{provider}/traits"
    answer = await admin("placement", "PUT", path, stale, version=PLACEMENT)

    assert answer.code == 409
    assert answer.body["errors"][0]["code"] == "placement.concurrent_update"


@pytest.mark.parametrize("name", ["CUSTOM_lower", "OWN", "CUSTOM_WITH-HYPHEN"])
async def test_a_trait_of_a_wrong_name_is_refused(admin: Session, name: str) -> None:
    assert (await admin("placement", "PUT", f"/traits/{name}", version=PLACEMENT)).code == 400


async def test_a_trait_that_does_not_exist_cannot_be_set(cloud: Cloud, admin: Session) -> None:
    provider = await provider_id(admin, cloud.hosts[0])
    path = f"/resource_providers/{provider}/traits"

    async def put() -> int:
        seen = await trait_document(admin, provider)
        body = seen | {"traits": [*seen["traits"], "CUSTOM_DOES_NOT_EXIST"]}
        return (await admin("placement", "PUT", path, body, version=PLACEMENT)).code

    assert await until(put, lambda code: code != 409) == 400


async def test_unknown_things_are_not_found(cloud: Cloud, admin: Session) -> None:
    unknown = "00000000-0000-0000-0000-000000000000"
    for kind in ("servers", "os-services", "os-hypervisors", "os-aggregates"):
        answer = await admin("compute", "GET", f"/{kind}/{unknown}", version=VERSION)
        assert answer.code in {400, 404}, kind
    answer = await admin(
        "placement", "GET", "/resource_providers?name=no-such-host", version=PLACEMENT
    )
    assert answer.ok()["resource_providers"] == []


async def test_a_microversion_that_is_too_new_is_refused_with_the_range(admin: Session) -> None:
    root = (await admin("compute", "GET", "/", version="")).ok()["version"]
    assert (root["id"], root["status"]) == ("v2.1", "CURRENT")
    newest = tuple(map(int, root["version"].split(".")))
    assert newest >= (2, 96)

    answer = await admin("compute", "GET", "/servers", version="2.9999")

    assert answer.code == 406
