"""From a key that is made on the host to its certificate in its place."""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from msgspec.structs import replace
from tests.authority import Authority, pem
from tests.integration.node_agent.host.certificates import CA, host_units, issuing, sign
from tests.integration.node_agent.host.conftest import (
    DEADLINE,
    NAMESPACE,
    NODE,
    Site,
    create_hypervisor,
)
from tests.integration.runtime.scripted import eventually
from tests.sockets import left_to_the_collector

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.agent.certificates import pending
from hypercobalt.agent.certificates import request as rules
from hypercobalt.api.certificate import (
    CertificateCondition,
    CertificateRequest,
    CertificateRequestStatus,
    IssuerReference,
)
from hypercobalt.api.core import Secret
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.node_agent.host.certificates import requested
from hypercobalt.node_agent.host.tls_files import installer, layout
from hypercobalt.node_agent.settings import NodeAgentSettings
from hypercobalt.runtime import Kube, SystemClock

pytestmark = pytest.mark.asyncio(loop_scope="module")

TYPE = "TLSCertificateInstalled"
ISSUER = IssuerReference("nova-ca", "Issuer", "cert-manager.io")


@pytest.fixture(scope="module", autouse=True)
def abandoned_sockets() -> Generator[None]:
    """Every test stops an issuer in the middle of its requests."""
    with left_to_the_collector():
        yield


def deny(_: CertificateRequest) -> CertificateRequestStatus:
    denied = CertificateCondition("Denied", "True", "Policy", "names of another host")
    return CertificateRequestStatus((denied,))


def pending_key(root: Path) -> Path:
    return root / layout(root).pending


def begin(site: Site, root: Path, units: FakeUnits | None = None) -> asyncio.Task[None]:
    settings = NodeAgentSettings(
        NODE, NODE, namespace=NAMESPACE, issuer="nova-ca", addresses=("192.0.2.1", "no address")
    )
    concern = requested(
        settings,
        site.kube,
        installer(root, units or host_units(), site.board),
        site.hypervisor,
        clock=SystemClock(),
        resync=timedelta(milliseconds=200),
    )
    task = asyncio.create_task(concern.run())
    site.start(lambda: _until_cancelled(task))
    return task


async def _until_cancelled(task: asyncio.Task[None]) -> None:
    """A task that a test may end by itself."""
    try:
        await asyncio.Event().wait()
    finally:
        task.cancel()
        await asyncio.wait({task})


async def until_gone(kube: Kube) -> None:
    async with asyncio.timeout(DEADLINE):
        while (await kube.list(CertificateRequest, NAMESPACE)).items:
            pass  # each turn is a request


async def test_key_is_made_on_the_host_and_nowhere_else(
    kube: Kube, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    units = host_units()
    await create_hypervisor(kube)
    async with issuing(kube) as issuer:
        begin(site, tmp_path, units)
        ready = await site.until(TYPE, "Ready")
        await until_gone(kube)

    key = (tmp_path / "libvirt/private/serverkey.pem").read_bytes()
    (request,) = issuer.seen
    names = x509.load_pem_x509_csr(request.spec.request).extensions.get_extension_for_class(
        x509.SubjectAlternativeName
    )
    assert ready.status == "True"
    assert names.value.get_values_for_type(x509.DNSName) == [NODE]
    assert [str(one) for one in names.value.get_values_for_type(x509.IPAddress)] == ["192.0.2.1"]
    assert request.metadata.name.startswith(f"libvirt-{NODE}-")
    assert b"PRIVATE" not in request.spec.request
    assert (tmp_path / "libvirt/private/serverkey.pem").stat().st_mode & 0o777 == 0o600
    assert b"PRIVATE KEY" in key
    assert not (await kube.list(Secret, NAMESPACE)).items
    await eventually(
        lambda: pending.load(pending_key(tmp_path)) is None
    )  # follows the request's deletion
    assert len(units.jobs) == 1
    assert "PRIVATE" not in caplog.text
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
        tmp_path / "qemu/server-cert.pem", tmp_path / "qemu/server-key.pem"
    )


async def test_old_certificate_is_renewed_with_the_same_key(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    key = tmp_path / "libvirt/private/serverkey.pem"
    await create_hypervisor(kube)

    def old_at_first(request: CertificateRequest) -> CertificateRequestStatus:
        return sign(request, days_old=9 if len(issuer.seen) == 1 else 0)

    async with issuing(kube, old_at_first) as issuer:
        begin(site, tmp_path)
        await eventually(lambda: len(issuer.seen) == 2, seconds=DEADLINE)
        await until_gone(kube)

    first, second = (x509.load_pem_x509_csr(one.spec.request) for one in issuer.seen)
    installed = serialization.load_pem_private_key(key.read_bytes(), None)
    assert first.public_key() == second.public_key()
    assert installed.public_key() == second.public_key()


async def test_denied_request_is_named_with_its_reason(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube)
    async with issuing(kube, deny):
        begin(site, tmp_path)
        denied = await site.until(TYPE, "RequestDenied")

    assert denied.status == "False"
    assert "names of another host" in denied.message
    assert "requested again at" in denied.message


async def test_denied_request_is_made_again_with_its_key(
    kube: Kube, site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person may have had the key accepted meanwhile."""
    monkeypatch.setattr(rules, "AGAIN", timedelta(seconds=1))
    await create_hypervisor(kube)

    def deny_at_first(request: CertificateRequest) -> CertificateRequestStatus:
        return deny(request) if len(issuer.seen) == 1 else sign(request)

    async with issuing(kube, deny_at_first) as issuer:
        begin(site, tmp_path)
        await site.until(TYPE, "Ready")

    first, second = (x509.load_pem_x509_csr(one.spec.request) for one in issuer.seen)
    assert first.public_key() == second.public_key()


async def test_key_that_was_deleted_is_replaced(kube: Kube, site: Site, tmp_path: Path) -> None:
    key = tmp_path / "libvirt/private/serverkey.pem"
    await create_hypervisor(kube)
    async with issuing(kube) as issuer:
        begin(site, tmp_path)
        await site.until(TYPE, "Ready")
        await until_gone(kube)
        before = key.read_bytes()
        key.unlink()
        await eventually(key.exists, seconds=DEADLINE)
        await until_gone(kube)

    assert len(issuer.seen) == 2
    assert key.read_bytes() != before


async def test_certificate_of_another_ca_changes_no_file(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube)
    async with issuing(kube, lambda request: sign(request, ca=Authority("other"))):
        begin(site, tmp_path)
        refused = await site.until(TYPE, "FailedToUpdateTLSCertificate")

    assert refused.status == "False"
    assert not (tmp_path / "libvirt/servercert.pem").exists()


async def test_forged_status_of_a_request_changes_no_file_once_a_ca_is_installed(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    other = Authority("other")

    def forge(request: CertificateRequest) -> CertificateRequestStatus:
        found = sign(request, ca=other, issuer=other.subject)
        return replace(found, ca=pem(other.certificate))

    await create_hypervisor(kube)
    (tmp_path / "CA").mkdir()
    (tmp_path / "CA/cacert.pem").write_bytes(pem(CA.certificate))
    async with issuing(kube, forge):
        begin(site, tmp_path)
        refused = await site.until(TYPE, "FailedToUpdateTLSCertificate")

    assert "its CA is not the one that is installed" in refused.message
    assert (tmp_path / "CA/cacert.pem").read_bytes() == pem(CA.certificate)
    assert not (tmp_path / "libvirt/servercert.pem").exists()


async def test_agent_that_dies_while_it_waits_goes_on_with_the_same_key(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube)
    task = begin(site, tmp_path)
    await site.until(TYPE, "RequestPending")
    task.cancel()
    await asyncio.wait({task})
    kept = pending.load(pending_key(tmp_path))
    site.board.drop_condition(TYPE)

    begin(site, tmp_path)
    async with issuing(kube) as issuer:
        await site.until(TYPE, "Ready")
        await until_gone(kube)

    assert kept is not None
    assert (tmp_path / "libvirt/private/serverkey.pem").read_bytes() == kept.key
    assert len(issuer.seen) == 1


async def test_changed_address_gets_a_certificate_of_its_own(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube)
    async with issuing(kube) as issuer:
        begin(site, tmp_path)
        await site.until(TYPE, "Ready")
        await until_gone(kube)
        await kube.merge_patch(
            Hypervisor, NODE, {"status": {"internalIp": "2001:db8::1"}}, subresource="status"
        )
        await eventually(lambda: len(issuer.seen) == 2, seconds=DEADLINE)

    signing_request = x509.load_pem_x509_csr(issuer.seen[-1].spec.request)
    names = signing_request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == [
        "192.0.2.1",
        "2001:db8::1",
    ]


async def test_files_changed_by_hand_are_put_right(
    kube: Kube, site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key, copy = tmp_path / "libvirt/private/serverkey.pem", tmp_path / "qemu/server-key.pem"
    link, units = tmp_path / "qemu/client-cert.pem", host_units()
    await create_hypervisor(kube)
    async with issuing(kube) as issuer:
        begin(site, tmp_path, units)
        await site.until(TYPE, "Ready")
        await until_gone(kube)
        key.chmod(0o644)
        copy.write_bytes(b"not a key")
        link.unlink()
        await eventually(lambda: len(units.jobs) == 2, seconds=DEADLINE)

    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert copy.read_bytes() == key.read_bytes()
    assert str(link.readlink()) == "server-cert.pem"
    assert "libvirt/private/serverkey.pem" in caplog.text
    assert len(issuer.seen) == 1


async def test_waiting_key_that_others_may_read_is_made_private_again(
    kube: Kube, site: Site, tmp_path: Path
) -> None:
    await create_hypervisor(kube)
    begin(site, tmp_path)
    await site.until(TYPE, "RequestPending")
    waiting = pending_key(tmp_path)
    waiting.chmod(0o644)
    await eventually(lambda: stat.S_IMODE(waiting.stat().st_mode) == 0o600, seconds=DEADLINE)
