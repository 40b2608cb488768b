"""The kinds: helpers, names, and what must not leak."""

from __future__ import annotations

import pytest

from hypercobalt.api import certificate, codec, coordination, core, workloads
from hypercobalt.api.definition import CustomResourceDefinition
from hypercobalt.api.hypervisor import (
    AggregateGroup,
    Group,
    Hypervisor,
    TraitGroup,
)
from hypercobalt.api.meta import Object, ObjectMeta

UUID = "12345678-1234-1234-1234-123456789abc"
TRAIT = Group(trait=TraitGroup(name="CUSTOM_HANA"))
AGGREGATE = Group(aggregate=AggregateGroup(name="zone-a", uuid=UUID, metadata={"k": "v"}))


def test_secret_values_do_not_show() -> None:
    secret = core.Secret(
        metadata=ObjectMeta(name="s", namespace="ns"),
        data={"tls.key": b"hunter2"},
        stringData={"token": "hunter3"},
    )
    assert repr(secret) == "Secret(ns/s, keys=['tls.key', 'token'])"
    assert str(secret) == repr(secret)
    assert "hunter" not in f"{(secret,)!r}"


def test_secret_values_are_base64_on_the_wire() -> None:
    secret = codec.decode(b'{"data":{"a":"/wA="}}', core.Secret)
    assert secret.data == {"a": b"\xff\x00"}
    assert b'"/wA="' in codec.encode(secret)


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        (core.Node, "/api/v1/nodes/x"),
        (core.Secret, "/api/v1/namespaces/ns/secrets/x"),
        (workloads.Deployment, "/apis/apps/v1/namespaces/ns/deployments/x"),
        (
            workloads.PodDisruptionBudget,
            "/apis/policy/v1/namespaces/ns/poddisruptionbudgets/x",
        ),
        (coordination.Lease, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/x"),
        (coordination.Event, "/apis/events.k8s.io/v1/namespaces/ns/events/x"),
        (certificate.Certificate, "/apis/cert-manager.io/v1/namespaces/ns/certificates/x"),
        (
            CustomResourceDefinition,
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x",
        ),
        (Hypervisor, "/apis/kvm.cloud.sap/v1/hypervisors/x"),
    ],
)
def test_each_kind_has_the_path_where_it_is_served(kind: type[Object], path: str) -> None:
    namespace = "ns" if kind.resource.namespaced else None
    assert kind.resource.path(namespace, "x") == path


def test_numbers_or_percentages_are_both_read() -> None:
    for value in ('"25%"', "1"):
        data = f'{{"spec":{{"minAvailable":{value}}}}}'.encode()
        assert value.encode() in codec.encode(codec.decode(data, workloads.PodDisruptionBudget))


def test_new_definition_with_null_status_is_read() -> None:
    data = b'{"status":{"conditions":null,"storedVersions":null}}'
    assert codec.decode(data, CustomResourceDefinition).status.conditions is None
