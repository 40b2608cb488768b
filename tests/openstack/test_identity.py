"""Tokens and the catalogue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hypercobalt.lab.errors import LabError
from tests.openstack.client import Session
from tests.openstack.cloud import Cloud
from tests.openstack.servers import VERSION


async def test_the_catalogue_names_every_service_of_the_region(
    cloud: Cloud, admin: Session
) -> None:
    token = await admin.authenticate()

    assert {"identity", "compute", "placement", "image", "network"} <= {
        service["type"] for service in token["catalog"]
    }
    assert "admin" in {role["name"] for role in token["roles"]}


async def test_a_wrong_password_is_refused(cloud: Cloud) -> None:
    with pytest.raises(LabError, match="401"):
        async with Session(replace(cloud.admin, password="wrong")):
            pass


@pytest.mark.parametrize("service", ["compute", "placement", "network"])
async def test_an_invalid_token_is_refused(admin: Session, service: str) -> None:
    admin.token = "gAAAAABnone"
    path = {"compute": "/servers", "placement": "/traits", "network": "/v2.0/ports"}[service]

    assert (await admin(service, "GET", path)).code == 401


async def test_a_revoked_token_is_refused(admin: Session) -> None:
    token = {"X-Subject-Token": admin.token}
    assert (await admin("identity", "DELETE", "/auth/tokens", headers=token)).code == 204

    assert (await admin("identity", "GET", "/projects")).code == 401


async def test_a_project_sees_only_its_own_servers(tester: Session) -> None:
    assert (await tester("compute", "GET", "/servers", version=VERSION)).ok()["servers"] == []
    elsewhere = await tester("compute", "GET", "/servers?all_tenants=1", version=VERSION)
    assert elsewhere.code == 403
