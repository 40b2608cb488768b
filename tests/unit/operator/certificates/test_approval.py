"""Which CertificateRequests are approved: those of an agent for its own host."""

from __future__ import annotations

import hashlib
import subprocess

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.operator.samples import node

from hypercobalt.agent.certificates.key_maker import KeyOrder, make_here
from hypercobalt.agent.certificates.pending import Pending
from hypercobalt.agent.certificates.request import RequestSettings, Wanted, request_of
from hypercobalt.api.certificate import CertificateRequest, CertificateRequestSpec, IssuerReference
from hypercobalt.api.core import Node
from hypercobalt.api.duration import format_duration
from hypercobalt.api.host_certificate import (
    AGENT,
    ANY_KEY,
    KEY,
    LIFETIME,
    MANAGED_BY,
    USAGES,
    HostNames,
)
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.signing_request import key_digest, write
from hypercobalt.operator.certificates.approval import (
    is_for,
    key_refusal,
    refusal,
    requester_node,
    with_key,
)
from hypercobalt.operator.certificates.settings import Issuing
from hypercobalt.operator.shared.node_names import names_of

OWN_KEY = ec.generate_private_key(ec.SECP256R1())
ISSUING = Issuing("monsoon3", "nova-ca")
AGENTS = ("agents", "more-agents")
NODE_NAME = "authentication.kubernetes.io/node-name"
ADDRESSES = ("192.0.2.1", "2001:db8::1")
OWN = names_of(node(addresses=ADDRESSES), lambda _: ())


def csr(*addresses: str, name: str = "kvm-a") -> bytes:
    return write(HostNames(name, addresses), OWN_KEY)


GOOD = CertificateRequestSpec(
    request=csr(*ADDRESSES),
    issuerRef=ISSUING.reference,
    duration=format_duration(LIFETIME),
    isCA=False,
    usages=USAGES,
    username="system:serviceaccount:agents:node-agent",
    extra={NODE_NAME: ("kvm-a",)},
)


def why(spec: CertificateRequestSpec) -> str:
    request = CertificateRequest(spec=spec)
    return refusal(request, OWN if requester_node(request) else None, AGENTS)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(GOOD, id="the own name and all addresses"),
        pytest.param(replace(GOOD, request=csr("192.0.2.1")), id="one address"),
        pytest.param(replace(GOOD, request=csr()), id="no address"),
        pytest.param(replace(GOOD, isCA=None), id="nothing about a CA"),
        pytest.param(replace(GOOD, usages=USAGES[::-1]), id="usages in another order"),
        pytest.param(replace(GOOD, duration="1h"), id="a shorter life"),
    ],
)
def test_an_agent_s_request_for_its_own_host_is_approved(spec: CertificateRequestSpec) -> None:
    assert why(spec) == ""


def test_request_of_the_node_agent_is_approved() -> None:
    """The agent's own code makes the request, from the key to the object."""
    wanted = Wanted(HostNames.of("kvm-a", ADDRESSES), ISSUING.reference)
    made = make_here(KeyOrder(wanted.names))
    where = RequestSettings("libvirt-kvm-a", ISSUING.namespace, AGENT)
    request = request_of(wanted, Pending(wanted.digest, made.request, made.key), where)
    spec = replace(request.spec, username=GOOD.username, extra=GOOD.extra)
    assert request.metadata.labels == {MANAGED_BY: AGENT}  # those are looked at
    assert is_for(request, ISSUING)
    assert why(spec) == ""


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        pytest.param(
            replace(GOOD, request=csr(*ADDRESSES, name="kvm-b")), "'kvm-b'", id="another host"
        ),
        pytest.param(replace(GOOD, request=csr(name="*")), "'*'", id="every host"),
        pytest.param(
            replace(GOOD, request=csr(name="kvm-a.example.org")), "kvm-a.ex", id="another domain"
        ),
        pytest.param(replace(GOOD, request=csr(name="KVM-A")), "'KVM-A'", id="capitals"),
        pytest.param(
            replace(GOOD, request=csr("192.0.2.1", "192.0.2.2")), "192.0.2.2", id="an address"
        ),
        pytest.param(
            replace(GOOD, request=csr("::ffff:192.0.2.1")), "::ffff", id="an address in disguise"
        ),
        pytest.param(replace(GOOD, request=csr("127.0.0.1")), "127.0.0.1", id="loopback"),
        pytest.param(replace(GOOD, request=b""), "cannot be read", id="no request"),
        pytest.param(replace(GOOD, request=GOOD.request * 99), "bytes", id="a huge request"),
        pytest.param(replace(GOOD, isCA=True), "CA", id="a CA"),
        pytest.param(replace(GOOD, usages=(*USAGES, "cert sign")), "usages", id="signing"),
        pytest.param(replace(GOOD, usages=(*USAGES, "any")), "usages", id="any use"),
        pytest.param(replace(GOOD, usages=()), "usages", id="the issuer's default use"),
        pytest.param(replace(GOOD, duration="876000h"), "47 days", id="a hundred years"),
        pytest.param(replace(GOOD, duration=""), "47 days", id="the issuer's default life"),
        pytest.param(replace(GOOD, duration="-1h"), "47 days", id="a life before its birth"),
        pytest.param(replace(GOOD, duration="9" * 99), "47 days", id="no duration"),
        pytest.param(replace(GOOD, username="system:node:kvm-a"), "namespaces", id="a kubelet"),
        pytest.param(replace(GOOD, username=""), "namespaces", id="an anonymous requester"),
        pytest.param(
            replace(GOOD, username="system:serviceaccount:agents-2:node-agent"),
            "namespaces",
            id="an account of a namespace that is called alike",
        ),
        pytest.param(
            replace(GOOD, username="x:system:serviceaccount:agents:node-agent"),
            "namespaces",
            id="an account in a user's name",
        ),
        pytest.param(replace(GOOD, extra={}), "names no Node", id="a token without a Node"),
        pytest.param(
            replace(GOOD, extra={NODE_NAME: ("kvm-a", "kvm-b")}), "no Node", id="two Nodes"
        ),
        pytest.param(replace(GOOD, extra={NODE_NAME: ("kvm-b",)}), "Node kvm-b", id="of another"),
    ],
)
def test_request_with_anything_of_another_host_is_denied(
    spec: CertificateRequestSpec, named: str
) -> None:
    text = why(spec)
    assert named in text
    assert len(text) < 300


def test_an_address_that_two_nodes_claim_is_neither_s() -> None:
    def claimants(claimed: str) -> list[Node]:
        return [replace(node(), metadata=replace(node().metadata, name="kvm-b"))] * (
            claimed == "192.0.2.1"
        )

    own = names_of(node(addresses=ADDRESSES), claimants)
    assert "192.0.2.1 is not an address" in refusal(CertificateRequest(spec=GOOD), own, AGENTS)


def test_an_address_that_another_host_holds_is_denied_with_that_host() -> None:
    own = names_of(node(addresses=ADDRESSES), lambda _: (), lambda _: "kvm-b")
    assert "host kvm-b holds 192.0.2.1" in refusal(CertificateRequest(spec=GOOD), own, AGENTS)


def test_first_key_is_recorded_and_stays_the_hosts() -> None:
    first, other = (key_digest(make_here(KeyOrder(HostNames("kvm-a"))).request) for _ in range(2))
    recorded = with_key(Hypervisor(metadata=ObjectMeta(name="kvm-a")), first)
    assert with_key(recorded, other) is recorded
    assert recorded.metadata.annotations[KEY] == first
    assert key_refusal("kvm-a", first, first) == ""
    text = key_refusal("kvm-a", other, first)
    assert f"its key {other} is not the one of kvm-a, {first}; " in text
    assert f"`kubectl annotate hypervisor kvm-a {KEY}={other} --overwrite`" in text


@pytest.mark.parametrize(
    ("recorded", "accepted"),
    [("", False), ("Any", False), ("*", False), ("x" * 9999, False), (ANY_KEY, True)],
)
def test_record_of_a_person_counts_only_as_written(recorded: str, accepted: bool) -> None:
    text = key_refusal("kvm-a", key_digest(GOOD.request), recorded)
    assert (text == "") == accepted
    assert len(text) < 450


def test_digest_of_a_key_is_that_of_openssl() -> None:
    def openssl(*arguments: str, given: bytes) -> bytes:
        return subprocess.run(
            ["openssl", *arguments], input=given, capture_output=True, check=True
        ).stdout

    public = openssl("req", "-pubkey", "-noout", given=GOOD.request)
    der = openssl("pkey", "-pubin", "-outform", "DER", given=public)
    assert hashlib.sha256(der).hexdigest() == key_digest(GOOD.request)


def test_only_the_hosts_issuer_counts() -> None:
    def issued_by(issuer: IssuerReference | None) -> bool:
        return is_for(CertificateRequest(spec=replace(GOOD, issuerRef=issuer)), ISSUING)

    assert issued_by(GOOD.issuerRef)
    assert issued_by(IssuerReference("nova-ca"))  # cert-manager's defaults
    assert not issued_by(None)
    for other in (
        IssuerReference("other", "Issuer", "cert-manager.io"),
        IssuerReference("nova-ca", "ClusterIssuer", "cert-manager.io"),
        IssuerReference("nova-ca", "Issuer", "example.org"),
    ):
        assert not issued_by(other)


_NAMES = st.sampled_from(["kvm-a", "kvm-a", "kvm-b", "kvm-a.example.org", "*", "localhost"])
_ADDRESSES = st.sampled_from([*ADDRESSES, *ADDRESSES, "192.0.2.9", "2001:db8::9", "::", "::1"])
_SPECS = st.builds(
    CertificateRequestSpec,
    request=st.builds(
        lambda name, addresses: csr(*addresses, name=name), _NAMES, st.lists(_ADDRESSES)
    )
    | st.binary(),
    issuerRef=st.just(ISSUING.reference),
    duration=st.sampled_from(["1h", "1128h0m0s", "1129h", "", "x"]) | st.text(max_size=20),
    isCA=st.sampled_from([None, False, False, True]),
    usages=st.just(USAGES) | st.lists(st.sampled_from([*USAGES, "any", "crl sign"])).map(tuple),
    username=st.sampled_from([GOOD.username, GOOD.username, "admin", "system:node:kvm-a"]),
    extra=st.sampled_from([GOOD.extra, GOOD.extra, {NODE_NAME: ("kvm-b",)}, {}]),
)


@given(_SPECS)
def test_approved_request_has_no_name_of_another_host(spec: CertificateRequestSpec) -> None:
    """The rule written again, over the parts of the request."""
    if why(spec):
        return
    assert spec.username == GOOD.username
    node = requester_node(CertificateRequest(spec=spec))
    assert node in {"kvm-a", "kvm-b"}
    assert set(spec.usages) == set(USAGES)
    assert not spec.isCA
    assert names_in(spec.request) <= {node, *ADDRESSES}


def names_in(request: bytes) -> set[str]:
    """The names of a request, by a parser other than the operator's."""
    shown = x509.load_pem_x509_csr(request).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    return {str(name.value) for name in shown.value}
