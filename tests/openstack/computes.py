"""Compute services and resource providers, as tests read and change them."""

from __future__ import annotations

from functools import partial
from typing import Final

from tests.openstack.client import Json, Session
from tests.openstack.servers import PLACEMENT, VERSION, until

DISABLED: Final = "COMPUTE_STATUS_DISABLED"


async def service(cloud: Session, host: str) -> Json:
    """The compute service of a host."""
    path = f"/os-services?binary=nova-compute&host={host}"
    (found,) = (await cloud("compute", "GET", path, version=VERSION)).ok()["services"]
    return found


async def set_service(cloud: Session, host: str, **changes: object) -> Json:
    """Change a host's compute service, and give it as it is then."""
    found = await service(cloud, host)
    answer = await cloud(
        *("compute", "PUT", f"/os-services/{found['id']}", changes), version=VERSION
    )
    return answer.ok()["service"]


async def until_back(cloud: Session, host: str) -> None:
    """Wait until the scheduler takes a host that has booted, and is enabled.

    Nova shows it as up by its last report before the boot, and as down once that is too old: a
    later one counts. If Nova has disabled it while it was off, its nova-compute hides it from the
    scheduler at its start, until its next report of resources.
    """
    before = (await service(cloud, host))["updated_at"]
    await until(
        partial(service, cloud, host),
        lambda found: found["state"] == "up" and found["updated_at"] != before,
    )
    provider = await provider_id(cloud, host)
    await until(partial(traits, cloud, provider), lambda found: DISABLED not in found)


async def hypervisors(cloud: Session, query: str = "") -> Json:
    """All hypervisors with details, by name."""
    answer = await cloud("compute", "GET", f"/os-hypervisors/detail{query}", version=VERSION)
    return {one["hypervisor_hostname"]: one for one in answer.ok()["hypervisors"]}


async def provider_id(cloud: Session, host: str) -> str:
    """The resource provider of a host."""
    path = f"/resource_providers?name={host}"
    answer = await cloud("placement", "GET", path, version=PLACEMENT)
    (found,) = answer.ok()["resource_providers"]
    return str(found["uuid"])


async def traits(cloud: Session, provider: str) -> Json:
    """Names of the traits of a resource provider."""
    return (await trait_document(cloud, provider))["traits"]


async def trait_document(cloud: Session, provider: str) -> Json:
    """The traits of a resource provider, with its generation."""
    path = f"/resource_providers/{provider}/traits"
    return (await cloud("placement", "GET", path, version=PLACEMENT)).ok()
