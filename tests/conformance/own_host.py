"""A host's token against one host's objects and another's, on both servers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.conformance.charts import rendered
from tests.conformance.hosts import BY_NAME, PATCHES, Fleet, Kind, fleet
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server
from tests.conformance.wire import Body, Json
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS

OWN, OTHER = "kvm-a", "kvm-b"


@pytest.fixture(scope="module")
def objects() -> list[Body]:
    """The chart, with every right that its values can give an agent."""
    return rendered(
        "hypercobalt-node-agent",
        {
            "certificates": {"enabled": True},
            "env": {"issuerName": "nova-ca"},
            "storeDefinitions": True,
        },
    )


@pytest.fixture(scope="module", params=["real", "embedded"])
def hosts(
    request: pytest.FixtureRequest, servers: tuple[Server, Server], objects: list[Body]
) -> Iterator[Fleet]:
    server = servers[0 if request.param == "real" else 1]
    install_definitions(server, [CERT_MANAGER, CERTIFICATE_REQUESTS])
    made = fleet(server, objects)
    deadline = time.monotonic() + 30
    while attempt(made, OWN, "patch", BY_NAME["kvm.cloud.sap", "hypervisors"], "status") != 403:
        assert time.monotonic() < deadline, "the policy did not come into force"
    yield made
    made.close()
    for body in objects:  # all tests share the servers
        if body["kind"].startswith(("Validating", "Cluster")):
            plural = f"{body['kind'].lower().removesuffix('y')}ies"
            plural = plural if body["kind"].endswith("y") else f"{body['kind'].lower()}s"
            call(
                server, "DELETE", f"/apis/{body['apiVersion']}/{plural}/{body['metadata']['name']}"
            )


def attempt(made: Fleet, node: str, verb: str, kind: Kind, subresource: str = "") -> int:
    """Write to the other host's object in the way of a verb, and return the answer's code."""
    path, whole = kind.path(OTHER, subresource), kind.body(OTHER)
    match verb:
        case "create":
            return made.send(node, "POST", f"{kind.path()}?dryRun=All", _renamed(whole))[0]
        case "update":
            stored: Body = call(made.server, "GET", kind.path(OTHER))
            return made.send(node, "PUT", path, stored)[0]
        case "patch":
            change: Json = {"status": {"origin": OWN}} if subresource else _labelled()
            return made.send(node, "PATCH", path, change, PATCHES["merge"])[0]
        case "delete":
            return made.send(node, "DELETE", path)[0]
        case _:
            return made.send(node, "DELETE", kind.path())[0]


def _renamed(body: Body) -> Body:
    """Another object of the other host's, as the one that is there would only be a conflict."""
    name = f"{body['metadata']['name']}-2"
    return {**body, "metadata": {**body["metadata"], "name": name}}


def _labelled() -> Body:
    return {"metadata": {"labels": {"taken": "over"}}}
