"""Certificate requests of agents and attackers, and the operator's decisions about them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric import ec
from msgspec.structs import replace
from tests.conformance.wire import Json
from tests.integration.cert_manager import request_of_agent
from tests.integration.operator.approvals import ISSUING, PLACE, verdict
from tests.integration.operator.conftest import add_node, operator, passes, until
from tests.integration.runtime.scripted import eventually

from hypercobalt.api.certificate import (
    Certificate,
    CertificateCondition,
    CertificateRequest,
    CertificateRequestSpec,
    CertificateRequestStatus,
)
from hypercobalt.api.codec import DecodeError
from hypercobalt.api.coordination import Event
from hypercobalt.api.host_certificate import ANY_KEY, KEY
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.signing_request import key_digest
from hypercobalt.operator.certificates.approval import requester_node
from hypercobalt.operator.certificates.pace import AT_ONCE
from hypercobalt.runtime import Kube

pytestmark = pytest.mark.asyncio(loop_scope="session")

NODE_NAME = "authentication.kubernetes.io/node-name"


@pytest_asyncio.fixture(autouse=True, loop_scope="session")
async def no_requests(kube: Kube) -> AsyncIterator[None]:
    yield
    for type_ in (CertificateRequest, Certificate):
        for old in (await kube.list(type_, PLACE)).items:
            await kube.delete(type_, old.metadata.name, PLACE)


async def decided(kube: Kube, name: str) -> str:
    return verdict(
        await until(kube, CertificateRequest, name, lambda it: bool(verdict(it)), namespace=PLACE)
    )


async def test_agent_gets_a_certificate_of_its_own_host(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    async with operator(kubeconfig, issuing=ISSUING):
        await add_node(kube, name, addresses=("192.0.2.1", "2001:db8::1"))
        made = await kube.create(request_of_agent(name, "192.0.2.1", "2001:db8::1"))
        text = await decided(kube, made.metadata.name)
    assert text == "Approved: Certificate request has been approved by kvm.cloud.sap"


async def test_token_gets_no_certificate_for_another_key_than_the_host_has(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The attacker has the agent's token, and no file of the host."""
    own = ec.generate_private_key(ec.SECP256R1())
    async with operator(kubeconfig, issuing=ISSUING):
        await add_node(kube, name)
        first = await kube.create(request_of_agent(name, key=own))
        assert (await decided(kube, first.metadata.name)).startswith("Approved")
        foreign = await kube.create(request_of_agent(name, name=f"libvirt-{name}-1"))
        text = await decided(kube, foreign.metadata.name)
        renewed = await kube.create(request_of_agent(name, key=own, name=f"libvirt-{name}-2"))
        assert (await decided(kube, renewed.metadata.name)).startswith("Approved")
        await eventually(lambda: refusal_shown(kube, name))
    assert text.startswith("Denied")
    assert f"kubectl annotate hypervisor {name} {KEY}=" in text


async def test_of_several_first_keys_one_is_the_hosts(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """They are decided at the same time, and before the Hypervisor is there."""
    names = [f"libvirt-{name}-{number}" for number in range(4)]
    for each in names:
        await kube.create(request_of_agent(name, name=each))
    async with operator(kubeconfig, issuing=ISSUING):
        await add_node(kube, name)
        found = [(await decided(kube, each)).partition(":")[0] for each in names]
    assert sorted(found) == ["Approved", "Denied", "Denied", "Denied"]


async def refusal_shown(kube: Kube, name: str) -> bool:
    """Whether there is an Event about the Hypervisor."""
    events = (await kube.list(Event, "default")).items
    about = [event for event in events if event.regarding and event.regarding.name == name]
    return [(event.reason, event.type) for event in about] == [("CertificateKeyRefused", "Warning")]


@pytest.mark.parametrize("record", ["the new key", "any", "none"])
async def test_person_has_a_host_with_a_new_key_accepted(
    kube: Kube, kubeconfig: Path, name: str, record: str
) -> None:
    request = request_of_agent(name)
    values = {"the new key": key_digest(request.spec.request), "any": ANY_KEY, "none": None}
    async with operator(kubeconfig, issuing=ISSUING):
        await add_node(kube, name)
        first = await kube.create(request_of_agent(name, name=f"libvirt-{name}-1"))
        assert (await decided(kube, first.metadata.name)).startswith("Approved")
        changed = {"metadata": {"annotations": {KEY: values[record]}}}
        await kube.merge_patch(Hypervisor, name, changed)
        again = await kube.create(request)
        assert (await decided(kube, again.metadata.name)).startswith("Approved")


async def test_request_that_is_older_than_its_node_waits_for_it(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    made = await kube.create(request_of_agent(name))
    async with operator(kubeconfig, issuing=ISSUING) as running:
        await passes(running, "certificate-approval")
        assert verdict(await stored(kube, made)) == ""
        await add_node(kube, name)
        text = await decided(kube, made.metadata.name)
    assert text.startswith("Approved")


async def stored(kube: Kube, request: CertificateRequest) -> CertificateRequest:
    found = await kube.get(CertificateRequest, request.metadata.name, PLACE)
    assert found is not None
    return found


def but(given: CertificateRequest, /, **changes: object) -> CertificateRequest:
    """A request with another spec."""
    changed: CertificateRequestSpec = replace(given.spec, **changes)
    return replace(given, spec=changed)


async def test_no_hostile_request_is_approved(kube: Kube, kubeconfig: Path, name: str) -> None:
    """The attacker has the agent's token of one host, and another account."""
    other = f"{name}-b"
    mine = request_of_agent(name, "192.0.2.1")
    theirs = request_of_agent(other, "192.0.2.2")
    usages = mine.spec.usages
    denied = {
        "name": request_of_agent(name, "192.0.2.1", names=other),
        "address": request_of_agent(name, "192.0.2.1", "192.0.2.2"),
        "claimed-by-both": request_of_agent(name, "192.0.2.3"),
        "unknown-address": request_of_agent(name, "198.51.100.1"),
        "wildcard": request_of_agent(name, names="*"),
        "subdomain": request_of_agent(name, names=f"x.{name}"),
        "replayed": but(mine, request=theirs.spec.request),
        "twice": but(mine, request=mine.spec.request + theirs.spec.request),
        "garbage": but(mine, request=b"\x00\xff" * 400),
        "huge": but(mine, request=mine.spec.request * 400),
        "ca": but(mine, isCA=True),
        "cert-sign": but(mine, usages=(*usages, "cert sign")),
        "for-ever": but(mine, duration="876000h"),
        "person": but(mine, username="someone"),
        "other-account": but(mine, username="system:serviceaccount:default:default"),
        "no-node": but(mine, extra={}),
        "two-nodes": but(mine, extra={NODE_NAME: (name, other)}),
    }
    unlabelled = replace(mine.metadata, labels={})
    left = {
        "issuer": request_of_agent(name, issuer="cluster-ca"),
        "label": replace(mine, metadata=unlabelled),
        "unknown-node": but(mine, extra={NODE_NAME: ("kvm-elsewhere",)}),
    }
    async with operator(kubeconfig, issuing=ISSUING):
        await add_node(kube, name, addresses=("192.0.2.1", "192.0.2.3"))
        await add_node(kube, other, addresses=("192.0.2.2", "192.0.2.3"))
        for what, request in (left | denied).items():
            meta = replace(request.metadata, name=f"libvirt-{name}-{what}")
            await kube.create(replace(request, metadata=meta))
        for what in denied:
            assert (await decided(kube, f"libvirt-{name}-{what}")).startswith("Denied"), what
        await kube.create(mine)
        assert (await decided(kube, mine.metadata.name)).startswith("Approved")
    found = (await kube.list(CertificateRequest, PLACE)).items
    approved = [it.metadata.name for it in found if "Approved" in verdict(it)]
    undecided = {it.metadata.name for it in found if not verdict(it)}
    assert approved == [mine.metadata.name]
    assert undecided == {f"libvirt-{name}-{what}" for what in left}


async def test_request_that_cannot_be_read_holds_up_no_other(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """Where nothing checks what is stored; cert-manager's own definition refuses these."""
    changes: list[dict[str, Json]] = [
        {"request": 5},
        {"request": "%"},
        {"extra": ["x"]},
        {"usages": "any"},
    ]
    odd = [f"libvirt-{name}-{number}" for number in range(len(changes))]
    for each, spec in zip(odd, changes, strict=True):
        await kube.create(request_of_agent(name, name=each))
        with pytest.raises(DecodeError):
            await kube.merge_patch(CertificateRequest, each, {"spec": spec}, PLACE)
    async with operator(kubeconfig, issuing=ISSUING):
        await add_node(kube, name)
        good = await kube.create(request_of_agent(name))
        assert (await decided(kube, good.metadata.name)).startswith("Approved")
    for each in odd:
        await kube.delete(CertificateRequest, each, PLACE)


async def test_requests_of_one_host_keep_no_other_hosts_waiting(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    captured, many = f"{name}-a", 2 * AT_ONCE
    one = request_of_agent(captured, "198.51.100.1")
    for number in range(many):
        meta = replace(one.metadata, name=f"libvirt-{captured}-{number}")
        await kube.create(replace(one, metadata=meta))
    other = await kube.create(request_of_agent(f"{name}-b"))
    for host in (captured, f"{name}-b"):
        await add_node(kube, host)
    async with operator(kubeconfig, issuing=ISSUING):
        assert (await decided(kube, other.metadata.name)).startswith("Approved")
        found = (await kube.list(CertificateRequest, PLACE)).items
    of_captured = [it for it in found if requester_node(it) == captured]
    assert len(of_captured) == many
    assert sum(bool(verdict(it)) for it in of_captured) < many - AT_ONCE / 2


@pytest.mark.parametrize("type_", ["Approved", "Denied"])
async def test_decision_of_another_approver_stays_and_is_logged(
    kube: Kube, kubeconfig: Path, name: str, type_: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = await kube.create(request_of_agent(name, "198.51.100.1"))
    condition = CertificateCondition(type_, "True", "cert-manager.io", "approved")
    status = CertificateRequestStatus(conditions=(condition,))
    before = await kube.patch_status(made, status)
    await add_node(kube, name)
    async with operator(kubeconfig, issuing=ISSUING) as running:
        await passes(running, "certificate-approval")
    after = await stored(kube, made)
    assert after.metadata.resourceVersion == before.metadata.resourceVersion
    logged = "certificate_request_approved_elsewhere" in caplog.text
    assert logged == (type_ == "Approved")


async def test_no_certificate_is_made_and_one_of_before_stays(
    kube: Kube, kubeconfig: Path, name: str
) -> None:
    """The request of the same Node shows that the operator has seen it."""
    meta = ObjectMeta(name=f"libvirt-{name}", namespace=PLACE)
    before = await kube.create(Certificate(metadata=meta))
    async with operator(kubeconfig, issuing=ISSUING):
        await add_node(kube, name)
        made = await kube.create(request_of_agent(name))
        await decided(kube, made.metadata.name)
    certificates = (await kube.list(Certificate, PLACE)).items  # of other tests, too
    assert [each for each in certificates if name in each.metadata.name] == [before]
