"""The Certificate that a Node should have."""

from __future__ import annotations

from msgspec.structs import replace
from tests.unit.operator.samples import node

from hypercobalt.api.certificate import Certificate
from hypercobalt.api.core import Node, NodeAddress, NodeStatus
from hypercobalt.api.duration import parse_duration
from hypercobalt.api.meta import OwnerReference
from hypercobalt.operator.certificates.issuing import decide as certificate_for
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.shared.node_names import names_of
from hypercobalt.runtime.subset import is_within

ISSUING = Issuing("monsoon3", "ca")


def decide(found: Node, issuing: Issuing) -> Certificate:
    """The Certificate of a Node that is alone."""
    return certificate_for(found, names_of(found, lambda _: ()), issuing)


def with_addresses(**addresses: str) -> Node:
    found = tuple(NodeAddress(type=type_, address=value) for type_, value in addresses.items())
    return replace(node(), status=NodeStatus(addresses=found))


def test_certificate_has_names_secret_issuer_and_owner() -> None:
    made = decide(node(), ISSUING)
    assert (made.metadata.name, made.metadata.namespace) == ("libvirt-kvm-a", "monsoon3")
    assert made.spec.secretName == "tls-libvirt-kvm-a"
    assert made.spec.commonName == "kvm-a"
    assert made.spec.issuerRef is not None
    issuer = made.spec.issuerRef
    assert (issuer.name, issuer.kind, issuer.group) == ("ca", "Issuer", "cert-manager.io")
    (owner,) = made.metadata.ownerReferences
    assert (owner.uid, owner.controller) == ("node-uid", True)


def test_every_address_that_can_be_in_a_certificate_is() -> None:
    spec = decide(
        with_addresses(
            Hostname="kvm-a",
            InternalDNS="kvm-a.internal",
            ExternalDNS="kvm-a.example.com",
            InternalIP="192.0.2.2",
            ExternalIP="2001:db8::1",
            Odd="odd",
        ),
        ISSUING,
    ).spec
    assert spec.dnsNames == ("kvm-a", "kvm-a.example.com", "kvm-a.internal")
    assert spec.ipAddresses == ("192.0.2.2", "2001:db8::1")


def test_empty_and_malformed_addresses_are_left_out() -> None:
    spec = decide(with_addresses(Hostname="", InternalIP="not-an-ip", ExternalIP=""), ISSUING).spec
    assert (spec.dnsNames, spec.ipAddresses) == (("kvm-a",), ())


def test_leaf_certificate_may_not_sign_others() -> None:
    spec = decide(node(), ISSUING).spec
    assert "cert sign" not in spec.usages
    assert {"server auth", "client auth"} <= set(spec.usages)
    assert not spec.isCA


def test_key_and_lifetime_are_those_that_monitoring_expects() -> None:
    spec = decide(node(), ISSUING).spec
    assert spec.privateKey is not None
    key = spec.privateKey
    assert (key.algorithm, key.encoding, key.size) == ("RSA", "PKCS1", 4096)
    assert parse_duration(spec.duration).days == 47
    assert parse_duration(spec.renewBefore).days == 37


def test_fields_that_others_add_are_no_difference_and_those_they_change_are() -> None:
    wanted = decide(node(), ISSUING)
    other = OwnerReference(apiVersion="v1", kind="ConfigMap", name="x", uid="other")
    meta = replace(
        wanted.metadata,
        labels={"team": "net"},
        ownerReferences=(other, *wanted.metadata.ownerReferences),
    )
    added: Certificate = replace(wanted, metadata=meta, spec=replace(wanted.spec, isCA=False))
    assert is_within(wanted, added, key="uid")
    assert not is_within(wanted, replace(added, spec=replace(added.spec, dnsNames=())), key="uid")
    disowned = replace(added.metadata, ownerReferences=(other,))
    assert not is_within(wanted, replace(added, metadata=disowned), key="uid")
