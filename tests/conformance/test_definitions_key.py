"""The operator's key for stored definitions, with the rights of its chart, on both servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conformance.charts import NAMESPACE, RELEASE, rendered
from tests.conformance.echoes import echoes, shown
from tests.conformance.hosts import BY_NAME, SPACE, Fleet, fleet
from tests.conformance.permitted import granted
from tests.conformance.prepare import call, install_definitions
from tests.conformance.real import Server, write_kubeconfig
from tests.conformance.wire import Body
from tests.integration.cert_manager import CERT_MANAGER, CERTIFICATE_REQUESTS

from hypercobalt.api.core import Secret
from hypercobalt.operator.definitions.keys import DefinitionsKeys
from hypercobalt.runtime import Kube, load_connection

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

CHART = "hypercobalt-operator"
KEY = f"{RELEASE}-hypercobalt-operator-definitions-key"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
ENV: Body = {"agentNamespaces": SPACE, "certificateNamespace": SPACE}
VALUE = "aW4gYW5vdGhlciBTZWNyZXQ="


def values(compute: str) -> Body:
    env = {**ENV, "compute": compute}
    return {
        "controllerManager": {"manager": {"env": env}},
        "gardener": {"enabled": False},
        "openstack": {"cloudsSecret": "clouds"},
    }


@pytest.fixture(scope="module", params=["real", "embedded"])
def site(request: pytest.FixtureRequest, servers: tuple[Server, Server]) -> Iterator[Fleet]:
    """The operator's account with its chart's rights, in place of an agent's."""
    server = servers[0 if request.param == "real" else 1]
    install_definitions(server, [CERT_MANAGER, CERTIFICATE_REQUESTS])
    objects = rendered(CHART, values("direct"))
    made = fleet(server, [body for body in objects if body["kind"] != "Deployment"])
    deadline = time.monotonic() + 30
    while create(made, {"name": "other"}) != 403:
        assert time.monotonic() < deadline, "the policy did not come into force"
    yield made
    made.client.close()
    group = "/apis/admissionregistration.k8s.io/v1"
    for plural in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        call(server, "DELETE", f"{group}/{plural}/{KEY}")


def create(site: Fleet, meta: Body, type_: str = "Opaque", namespace: str = NAMESPACE) -> int:
    body: Body = {"metadata": meta, "type": type_}
    return site.send("", "POST", f"/api/v1/namespaces/{namespace}/secrets?dryRun=All", body)[0]


TOKEN = "kubernetes.io/service-account-token"


@pytest.mark.parametrize(
    ("meta", "type_", "namespace", "code"),
    [
        ({"name": KEY}, "Opaque", NAMESPACE, 201),
        ({"name": f"{KEY}-2"}, "Opaque", NAMESPACE, 403),
        ({"generateName": KEY}, "Opaque", NAMESPACE, 403),
        ({"name": KEY}, "Opaque", SPACE, 403),
        ({"name": KEY}, "Opaque", "kube-system", 403),
        (
            {"name": KEY, "annotations": {"kubernetes.io/service-account.name": "default"}},
            TOKEN,
            NAMESPACE,
            403,
        ),
    ],
    ids=["the key", "another name", "a made name", "where agents are", "elsewhere", "a token"],
)
def test_the_operator_creates_the_secret_of_its_key_and_no_other(
    site: Fleet, meta: Body, type_: str, namespace: str, code: int
) -> None:
    assert create(site, meta, type_, namespace) == code


def test_no_answer_shows_the_operator_another_secret(site: Fleet) -> None:
    present = secret(site, NAMESPACE, "other")
    answers = [
        (echo.title, *echo.send(site, "", SECRETS, "other"))
        for echo in echoes(present, "/data/password", VALUE)
    ]
    assert [one for one in answers if shown(one[2], VALUE)] == []
    # The name is taken: an answer that it shares with whoever may create anything there.
    assert {one[1] for one in answers} <= {403, 409}
    assert call(site.server, "GET", f"{SECRETS}/other") == present


def test_the_operator_reads_no_secret_where_agents_are(site: Fleet) -> None:
    for name in ("bmc", KEY):
        secret(site, SPACE, name)
        path = f"/api/v1/namespaces/{SPACE}/secrets/{name}"
        assert site.send("", "GET", path)[0] == 403
    definitions = BY_NAME["kvm.cloud.sap", "sealeddefinitions"]
    assert site.send("", "GET", definitions.path("kvm-b"))[0] == 200
    assert site.send("", "GET", definitions.path())[0] == 403


def secret(site: Fleet, namespace: str, name: str) -> Body:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    listed = call(site.server, "GET", path)["items"]
    if name not in {one["metadata"]["name"] for one in listed}:
        body: Body = {"metadata": {"name": name}, "type": "Opaque", "data": {"password": VALUE}}
        call(site.server, "POST", path, body)
    found: Body = call(site.server, "GET", f"{path}/{name}")
    return {**found, "apiVersion": "v1", "kind": "Secret"}


async def test_of_two_operators_at_once_both_have_one_key(site: Fleet, tmp_path: Path) -> None:
    account = tmp_path / "account"
    write_kubeconfig(account, site.server.url, site.server.ca_file, site._token(""))
    async with (
        Kube(load_connection(site.server.kubeconfig)) as person,
        Kube(load_connection(account)) as first,
        Kube(load_connection(account)) as second,
    ):
        await person.delete(Secret, KEY, NAMESPACE)
        rings = await asyncio.gather(
            *(DefinitionsKeys(kube, KEY, NAMESPACE).read() for kube in (first, second) * 4)
        )
        assert len({one.current.public.id for one in rings}) == 1
        found = await person.get(Secret, KEY, NAMESPACE)
        assert found
        assert (found.type, sorted(found.data)) == ("Opaque", ["current.pem"])
        await person.delete(Secret, KEY, NAMESPACE)


def test_only_an_operator_that_reads_definitions_has_rights_for_them() -> None:
    direct, nova = (granted(rendered(CHART, values(one))) for one in ("direct", "nova"))
    assert nova - direct == set()
    assert direct - nova == {
        ("get", "", "secrets", NAMESPACE),
        ("create", "", "secrets", NAMESPACE),
        ("get", "kvm.cloud.sap", "sealeddefinitions", SPACE),
    }
    (named,) = (
        rule
        for body in rendered(CHART, values("direct"))
        if body["kind"] == "Role"
        for rule in body["rules"]
        if "get" in rule["verbs"] and "secrets" in rule["resources"]
    )
    assert named["resourceNames"] == [KEY]
