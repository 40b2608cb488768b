"""What an OpenStack has from its first day: the services' account, a catalogue, a test project."""

from __future__ import annotations

import asyncio
from typing import Final

from hypercobalt.lab.openstack.client import Account, Json, Session
from hypercobalt.lab.openstack.config import ACCOUNT
from hypercobalt.lab.openstack.place import (
    KEYSTONE,
    PASSWORD,
    REGION,
    SERVICES,
    OpenStackPlace,
    Service,
)

TEST_PROJECT: Final = "test"
TEST_USER: Final = "test"


def administrator(place: OpenStackPlace) -> Account:
    return Account(place.url(KEYSTONE), "admin", PASSWORD, "admin", REGION)


def tester(place: OpenStackPlace) -> Account:
    """A user with a project and no other right."""
    return Account(place.url(KEYSTONE), TEST_USER, PASSWORD, TEST_PROJECT, REGION)


async def write(place: OpenStackPlace) -> None:
    """Make accounts and catalogue; nothing of Nova may have been started before.

    Raises:
        LabError: Keystone refuses.
    """
    async with Session(administrator(place)) as keystone:
        found = (await keystone("identity", "GET", "/roles")).ok()["roles"]
        roles = {role["name"]: role["id"] for role in found}
        async with asyncio.TaskGroup() as group:
            group.create_task(
                _account(keystone, ACCOUNT, "service", [roles["admin"], roles["service"]])
            )
            group.create_task(_test_project(keystone, roles))
            for service in SERVICES:
                group.create_task(_service(keystone, service, place.url(service)))


async def _test_project(keystone: Session, roles: dict[str, str]) -> None:
    """The project of a user, in which the administrator may work too."""
    project = await _account(keystone, TEST_USER, TEST_PROJECT, [roles["member"]])
    found = (await keystone("identity", "GET", "/users?name=admin")).ok()["users"][0]
    path = f"/projects/{project}/users/{found['id']}/roles/{roles['admin']}"
    (await keystone("identity", "PUT", path)).ok()


async def _account(keystone: Session, user: str, project: str, roles: list[str]) -> str:
    """Make a user and its project, and give the project's id."""
    in_project = await _make(keystone, "projects", name=project, domain_id="default")
    made = await _make(
        *(keystone, "users"),
        name=user,
        password=PASSWORD,
        domain_id="default",
        default_project_id=in_project,
    )
    for role in roles:
        path = f"/projects/{in_project}/users/{made}/roles/{role}"
        (await keystone("identity", "PUT", path)).ok()
    return in_project


async def _service(keystone: Session, service: Service, url: str) -> None:
    made = await _make(keystone, "services", name=service.name, type=service.kind)
    for interface in ("public", "internal"):
        await _make(
            *(keystone, "endpoints"),
            service_id=made,
            interface=interface,
            region_id=REGION,
            url=url,
        )


async def _make(keystone: Session, kind: str, **values: str) -> str:
    one = kind.removesuffix("s")
    answer: Json = (await keystone("identity", "POST", f"/{kind}", {one: values})).ok()
    return str(answer[one]["id"])
