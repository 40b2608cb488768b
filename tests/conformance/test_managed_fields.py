"""What an agent puts into `metadata.managedFields` itself: on both servers no place to store in.

kube-apiserver keeps entries of a client as they are, of any size, for any manager and of fields
that no schema has.
"""

from __future__ import annotations

import pytest
from tests.conformance.hosts import BY_NAME, PATCHES, Fleet, Kind
from tests.conformance.own_host import OWN, hosts, objects
from tests.conformance.wire import Body, Json

from hypercobalt.api.writers import MOST_OWNED

__all__ = ["hosts", "objects"]

pytestmark = pytest.mark.timeout(180)  # Go compiles its standard library the first time

LONG = "z" * (MOST_OWNED + 1)
WRITTEN = (
    BY_NAME["kvm.cloud.sap", "evictions"],
    BY_NAME["kvm.cloud.sap", "migrations"],
    BY_NAME["coordination.k8s.io", "leases"],
    BY_NAME["cert-manager.io", "certificaterequests"],
    BY_NAME["kvm.cloud.sap", "sealeddefinitions"],
)


def nested(levels: int) -> Json:
    fields: Json = {}
    for _ in range(levels):
        fields = {"f:a": fields}
    return fields


def entry(kind: Kind, fields: Json, **more: Json) -> Body:
    version = kind.body(OWN)["apiVersion"]
    stamp: Body = {"time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return {"manager": "x", "operation": "Update", "apiVersion": version, **stamp, **more}


def write(hosts: Fleet, kind: Kind, *entries: Body) -> tuple[int, str]:
    """Have the own host's agent write its object with these entries."""
    body = kind.body(OWN)
    body["metadata"]["managedFields"] = list(entries)
    if kind.plural == "sealeddefinitions":  # which no agent deletes
        change = {"metadata": {"managedFields": list(entries)}}
        code, answer = hosts.send(OWN, "PATCH", kind.path(OWN), change, PATCHES["merge"])
    else:
        hosts.send(OWN, "DELETE", kind.path(OWN))
        code, answer = hosts.send(OWN, "POST", kind.path(), body)
    return code, str(answer.get("message", ""))


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.plural)
@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"f:spec": {f"f:{LONG}": {}}}, id="a long name"),
        pytest.param({"f:metadata": {"f:labels": {f"f:{LONG}": {}}}}, id="a long label"),
        pytest.param({"f:spec": {"f:a": {"f:b": {f'v:"{LONG}"': {}}}}}, id="a long value"),
        pytest.param({f"f:{n:08d}": {} for n in range(MOST_OWNED // 10)}, id="many"),
        pytest.param(nested(12), id="deep"),
    ],
)
def test_an_agent_stores_nothing_in_managed_fields(hosts: Fleet, kind: Kind, fields: Json) -> None:
    code, message = write(hosts, kind, entry(kind, fields))
    assert (code, "metadata.managedFields" in message) == (403, True), message


@pytest.mark.parametrize("field", ["apiVersion", "subresource", "manager"])
def test_no_other_text_of_an_entry_is_long_either(hosts: Fleet, field: str) -> None:
    kind = BY_NAME["kvm.cloud.sap", "migrations"]
    write(hosts, kind, entry(kind, {"f:spec": {}}, **{field: LONG}))
    _, stored = hosts.send(OWN, "GET", kind.path(OWN))
    assert LONG not in str(stored)


def test_many_entries_count_together(hosts: Fleet) -> None:
    kind = BY_NAME["kvm.cloud.sap", "migrations"]
    long = "z" * (MOST_OWNED // 10)
    many = [entry(kind, {f"f:{n}{long}": {}}, manager=f"m{n}") for n in range(12)]
    assert write(hosts, kind, *many)[0] == 403


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.plural)
def test_what_a_client_reads_and_writes_back_is_taken(hosts: Fleet, kind: Kind) -> None:
    fields: Json = {"f:metadata": {"f:labels": {"f:kvm.cloud.sap/origin": {}}}}
    code, message = write(hosts, kind, entry(kind, fields))
    assert code in (200, 201), message


OWNER: Body = {"apiVersion": "kvm.cloud.sap/v1", "kind": "Hypervisor", "name": OWN, "uid": "u"}


@pytest.mark.parametrize("kind", WRITTEN[:-1], ids=lambda kind: kind.plural)
@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"selfLink": LONG}, id="link"),
        pytest.param({"ownerReferences": [{**OWNER, "uid": LONG}]}, id="owner"),
        pytest.param(
            {"ownerReferences": [{**OWNER, "uid": f"u{n}"} for n in range(5000)]}, id="own"
        ),
        pytest.param({"generateName": LONG}, id="prefix"),
        pytest.param({"later": LONG}, id="unknown"),
    ],
)
def test_no_other_part_of_metadata_stores_anything(hosts: Fleet, kind: Kind, meta: Body) -> None:
    body = kind.body(OWN)
    hosts.send(OWN, "DELETE", kind.path(OWN))
    code, answer = hosts.send(
        OWN, "POST", kind.path(), {**body, "metadata": body["metadata"] | meta}
    )
    assert code != 201 or len(str(answer["metadata"])) < MOST_OWNED, code
