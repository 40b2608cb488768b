"""Certificates in a Secret, the units that take them, and an issuer."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from tests.authority import BOTH, Authority, pem
from tests.integration.node_agent.host.conftest import NAMESPACE, NODE

from hypercobalt.adapters.host.fake import FakeUnits
from hypercobalt.adapters.host.model import UnitState
from hypercobalt.agent.certificates.check import CertificateFilesError
from hypercobalt.agent.certificates.install import Installer
from hypercobalt.api.certificate import (
    CertificateCondition,
    CertificateRequest,
    CertificateRequestStatus,
)
from hypercobalt.api.core import Secret
from hypercobalt.api.host_certificate import CertificateReason, HostNames
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.node_agent.host.tls_files import LIBVIRT_UNIT, UPDATE_UNIT
from hypercobalt.runtime import Change, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

AUTHORITY = trustme.CA()


class FromSecret:
    """Installs what a Secret has, whenever that changes: files from an issuer of any kind.

    Args:
        addresses: of the host, besides the one in its Hypervisor.
    """

    def __init__(
        self,
        installer: Installer,
        hypervisor: Latest[Hypervisor],
        secret: Latest[Secret],
        *,
        addresses: tuple[str, ...] = (),
        resync: timedelta = timedelta(minutes=5),
    ) -> None:
        self._installer, self._hypervisor, self._secret = installer, hypervisor, secret
        self._addresses, self._resync = addresses, resync

    async def run(self) -> None:
        while True:
            own, secret = self._hypervisor.value, self._secret.value
            if own is not None and own.spec.installCertificate is False:
                self._installer.drop()
            elif own is not None and secret is not None:
                await self._install(own, secret)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._resync.total_seconds()):
                    await first(self._hypervisor.changed(own), self._secret.changed(secret))

    async def _install(self, own: Hypervisor, secret: Secret) -> None:
        source = f"Secret {secret.metadata.name}"
        try:
            files = self._installer.layout.plan(secret.data)
        except CertificateFilesError as error:
            self._installer.fail(CertificateReason.FAILED_TO_UPDATE, f"{source}: {error}")
            return
        names = HostNames.of(own.metadata.name, (*self._addresses, own.status.internalIp or ""))
        await self._installer.put(files, names, source)


def data(host: str = NODE) -> dict[str, bytes]:
    return of(AUTHORITY.issue_cert(host, "192.0.2.1", "2001:db8::1"))


def of(leaf: trustme.LeafCert) -> dict[str, bytes]:
    certificate, key = leaf.cert_chain_pems[0].bytes(), leaf.private_key_pem.bytes()
    return {"ca.crt": AUTHORITY.cert_pem.bytes(), "tls.crt": certificate, "tls.key": key}


DATA = data()


def of_another_ca() -> dict[str, bytes]:
    """A certificate for the host, with the CA that has made it."""
    other = trustme.CA()
    leaf = other.issue_cert(NODE, "192.0.2.1", "2001:db8::1")
    return {**of(leaf), "ca.crt": other.cert_pem.bytes()}


def host_units(*, update: str = "loaded") -> FakeUnits:
    return FakeUnits(
        UnitState(UPDATE_UNIT, load=update, active="inactive"),
        UnitState(LIBVIRT_UNIT, load="loaded", active="active"),
    )


CA = Authority("nova")
Answer = Callable[[CertificateRequest], CertificateRequestStatus]


def sign(
    request: CertificateRequest,
    *,
    days_old: int = 0,
    ca: Authority = CA,
    issuer: x509.Name | None = None,
) -> CertificateRequestStatus:
    """What an issuer makes of a request: a certificate that is good for one more day."""
    signing_request = x509.load_pem_x509_csr(request.spec.request)
    names = signing_request.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .issuer_name(issuer or CA.subject)
        .subject_name(signing_request.subject)
        .public_key(signing_request.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=days_old, minutes=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(names, critical=False)
        .add_extension(x509.ExtendedKeyUsage(BOTH), critical=False)
        .sign(ca.key, hashes.SHA256())
    )
    conditions = tuple(CertificateCondition(one, "True", "By") for one in ("Approved", "Ready"))
    return CertificateRequestStatus(conditions, pem(made), pem(CA.certificate))


class Issuer:
    """Answers every request, and keeps those that it has seen."""

    def __init__(self, kube: Kube, answer: Answer, namespace: str) -> None:
        self.kube, self.answer, self.namespace = kube, answer, namespace
        self.seen: list[CertificateRequest] = []

    async def run(self) -> None:
        async with self.kube.watch(CertificateRequest, self.namespace) as events:
            async for event in events:
                if event.object is None or event.change is not Change.ADDED:
                    continue
                self.seen.append(event.object)
                await self.kube.patch_status(event.object, self.answer(event.object))


@contextlib.asynccontextmanager
async def issuing(
    kube: Kube, answer: Answer = sign, *, namespace: str = NAMESPACE
) -> AsyncIterator[Issuer]:
    issuer = Issuer(kube, answer, namespace)
    task = asyncio.create_task(issuer.run())
    try:
        yield issuer
    finally:
        task.cancel()
        await asyncio.wait({task})
