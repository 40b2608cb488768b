"""No agent has a verb on Secrets, so none of them is shown by any answer, on both servers.

RBAC is the only guard: a patch is applied, and its result decoded, before admission.
"""

from __future__ import annotations

import base64
import contextlib
import itertools

import pytest
from tests.conformance.charts import NAMESPACE, rendered
from tests.conformance.echoes import echoes, shown
from tests.conformance.hosts import BY_NAME, SPACE, Fleet
from tests.conformance.own_host import OTHER, OWN, hosts, objects
from tests.conformance.prepare import call
from tests.conformance.wire import Body

from hypercobalt.api.definitions import DomainDefinition, HostDefinitions, pack
from hypercobalt.api.sealing import Owner, PrivateKey

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

PASSWORD = "correct-horse-battery"
CODED = base64.b64encode(PASSWORD.encode()).decode()
UUID = "5e0c6a52-0000-4000-8000-000000000000"


@pytest.mark.parametrize("node", [OWN, ""], ids=["bound to its Node", "bound to none"])
def test_no_answer_shows_a_secret_of_the_namespace(hosts: Fleet, node: str) -> None:
    places = (
        (SPACE, "bmc"),
        (SPACE, f"domains.{OWN}"),  # what an agent wrote before
        (SPACE, f"tls-libvirt-{OTHER}"),
        (NAMESPACE, "definitions-key"),
    )
    for namespace, name in places:
        secrets = f"/api/v1/namespaces/{namespace}/secrets"
        present = stored(hosts, secrets, name)
        path = f"{secrets}/{name}"
        answers = [
            (echo.title, *echo.send(hosts, node, secrets, name))
            for echo in echoes(present, "/data/password", CODED)
        ]
        assert [one for one in answers if shown(one[2], PASSWORD, CODED)] == []
        assert [one for one in answers if one[1] != 403] == []
        assert call(hosts.server, "GET", path) == present


def stored(hosts: Fleet, secrets: str, name: str) -> Body:
    """A Secret with the password, as the server has it."""
    path = f"{secrets}/{name}"
    body: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
    full = {**body, "data": {"password": CODED}, "type": "Opaque"}
    with contextlib.suppress(RuntimeError):  # there is none
        call(hosts.server, "DELETE", path)
    call(hosts.server, "POST", secrets, full)
    found: Body = call(hosts.server, "GET", path)
    return found


@pytest.mark.parametrize("node", [OWN, ""], ids=["bound to its Node", "bound to none"])
def test_no_answer_shows_what_another_host_has_stored(hosts: Fleet, node: str) -> None:
    """An agent may read the objects of its kind: nothing but the operator's key opens them."""
    key, kind = PrivateKey.make(), BY_NAME["kvm.cloud.sap", "sealeddefinitions"]
    domain = DomainDefinition("vm1", f"<domain><graphics passwd='{PASSWORD}'/></domain>")
    packed = pack(HostDefinitions(domains={UUID: domain})).data
    sealed = base64.b64encode(key.public.seal(packed, Owner(OTHER, "uid"))).decode()
    body = kind.body(OTHER)
    body["spec"] = {"key": key.public.id, "hypervisorUID": "uid", "sealed": sealed}
    with contextlib.suppress(RuntimeError):  # there is none
        call(hosts.server, "DELETE", kind.path(OTHER))
    call(hosts.server, "POST", kind.path(), body)
    present: Body = call(hosts.server, "GET", kind.path(OTHER))
    answers = [
        (echo.title, *echo.send(hosts, node, kind.path(), OTHER))
        for echo in echoes(present, "/spec/sealed", sealed)
    ]
    content = (PASSWORD, UUID, base64.b64encode(packed).decode()[:40])
    assert [one for one in answers if shown(one[2], *content)] == []
    assert call(hosts.server, "GET", kind.path(OTHER)) == present


VALUES: tuple[Body, ...] = tuple(
    {
        "certificates": {"enabled": certificates},
        "env": {"issuerName": "nova-ca"},
        "storeDefinitions": stored,
    }
    for certificates, stored in itertools.product((False, True), repeat=2)
)


@pytest.mark.parametrize(
    ("chart", "values"),
    [
        *(("hypercobalt-node-agent", values) for values in VALUES),
        ("hypercobalt-ovs-agent", {}),
    ],
)
def test_no_role_of_an_agent_has_a_verb_on_secrets(chart: str, values: Body) -> None:
    for body in rendered(chart, values):
        for rule in body.get("rules") or () if body["kind"] in {"Role", "ClusterRole"} else ():
            groups, kinds = {*rule.get("apiGroups", ())}, {*rule.get("resources", ())}
            core = groups & {"", "*"}
            assert not (core and kinds & {"secrets", "secrets/*", "*", "*/*"}), rule
