"""Installs libvirt's certificate: requested for a key made on the host, or from a TLS Secret.

The Secret `tls-libvirt-<host>` counts only in the agent's own namespace. Its contents are put in
place and loaded; only then does the Secret count as installed, so a crash at any point ends in the
same again.

The Certificate `libvirt-<host>` is made when `spec.createCertManagerCertificate` is set. One of
another maker, such as the operator, is left alone: its label names the maker.

Source: kvm-node-agent, internal/controller/secret_controller.go and internal/certificates.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from typing import Final

from msgspec.structs import replace

from hypercobalt.agent.certificates.check import CertificateFilesError
from hypercobalt.agent.certificates.install import Installer
from hypercobalt.agent.certificates.request import RequestSettings, Wanted
from hypercobalt.agent.certificates.requester import RequestedCertificate
from hypercobalt.api.certificate import (
    Certificate,
    CertificatePrivateKey,
    CertificateSpec,
    IssuerReference,
    X509Subject,
)
from hypercobalt.api.core import Secret
from hypercobalt.api.duration import format_duration
from hypercobalt.api.host_certificate import AGENT, MANAGED_BY, CertificateReason, HostNames
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.settings import Settings
from hypercobalt.runtime import AlreadyExistsError, Clock, ForbiddenError, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
"""Between checks of the files in place, and attempts after a failure."""

DURATION: Final = timedelta(days=47)
RENEW_BEFORE: Final = timedelta(days=37)
USAGES: Final = ("server auth", "client auth", "digital signature", "key encipherment")


def requested(
    settings: Settings,
    kube: Kube,
    installer: Installer,
    hypervisor: Latest[Hypervisor],
    *,
    clock: Clock,
    resync: timedelta = RESYNC,
) -> RequestedCertificate[Hypervisor]:
    """The concern that requests a certificate for a key made on this host."""
    issuer = IssuerReference(settings.issuer, settings.issuer_kind, "cert-manager.io")

    def wanted(own: Hypervisor) -> Wanted | None:
        if own.spec.installCertificate is False:
            return None
        return Wanted(names_of(settings, own.status.internalIp), issuer)

    return RequestedCertificate(
        RequestSettings(f"libvirt-{settings.node}", settings.namespace, AGENT, settings.ca),
        kube,
        installer,
        own=hypervisor,
        wanted=wanted,
        clock=clock,
        resync=resync,
    )


def names_of(settings: Settings, internal_ip: str | None) -> HostNames:
    """The names and addresses that the host's certificate is for."""
    return HostNames.of(settings.node, (*settings.addresses, internal_ip or ""))


def secret_name(settings: Settings) -> str:
    """Name of the TLS Secret."""
    return f"tls-libvirt-{settings.node}"


def wanted_certificate(settings: Settings, internal_ip: str | None) -> Certificate:
    """The Certificate of this host, as the operator would make it."""
    names = names_of(settings, internal_ip)
    return Certificate(
        metadata=ObjectMeta(
            name=f"libvirt-{settings.node}",
            namespace=settings.namespace,
            labels={MANAGED_BY: AGENT},
        ),
        spec=CertificateSpec(
            secretName=secret_name(settings),
            issuerRef=IssuerReference(name=settings.issuer, kind="Issuer", group="cert-manager.io"),
            commonName=settings.node,
            dnsNames=(settings.node,),
            ipAddresses=names.addresses,
            duration=format_duration(DURATION),
            renewBefore=format_duration(RENEW_BEFORE),
            isCA=False,
            privateKey=CertificatePrivateKey(algorithm="RSA", encoding="PKCS1", size=4096),
            subject=X509Subject(organizations=("nova",)),
            usages=USAGES,
        ),
    )


def decide(present: Certificate | None, wanted: Certificate) -> Certificate | None:
    """The Certificate to write, None if what is there shall stay as it is."""
    if present is None:
        return wanted
    if present.metadata.labels.get(MANAGED_BY) != AGENT or present.spec == wanted.spec:
        return None
    return replace(present, spec=wanted.spec)


class Certificates:
    """Keeps the certificate of the Secret installed, and the Certificate as the spec has it.

    Args:
        hypervisor: the own one.
        secret: `tls-libvirt-<host>` in the agent's own namespace.
    """

    def __init__(
        self,
        settings: Settings,
        kube: Kube,
        installer: Installer,
        *,
        hypervisor: Latest[Hypervisor],
        secret: Latest[Secret],
        resync: timedelta = RESYNC,
    ) -> None:
        self._settings, self._kube = settings, kube
        self._hypervisor, self._secret = hypervisor, secret
        self._installer, self._resync = installer, resync

    async def run(self) -> None:
        """Install and renew until cancelled."""
        while True:
            hypervisor, secret = self._hypervisor.value, self._secret.value
            if hypervisor is not None:
                await self._pass(hypervisor, secret)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._resync.total_seconds()):
                    await first(self._spec_changed(hypervisor), self._secret.changed(secret))

    async def _spec_changed(self, since: Hypervisor | None) -> None:
        """Wait for a change of the Hypervisor that matters here; its status changes often."""
        known = since
        while known is since or (
            known is not None
            and since is not None
            and (known.metadata.uid, known.spec, known.status.internalIp)
            == (since.metadata.uid, since.spec, since.status.internalIp)
        ):
            known = await self._hypervisor.changed(known)

    async def _pass(self, hypervisor: Hypervisor, secret: Secret | None) -> None:
        spec = hypervisor.spec
        if spec.createCertManagerCertificate and self._settings.issuer:
            await self._request_certificate(hypervisor)
        elif spec.createCertManagerCertificate:
            log.warning("issuer_missing", host=self._settings.node)
        if spec.installCertificate is False:
            self._installer.drop()
        elif secret is not None:
            await self._install(secret, hypervisor.status.internalIp)
        else:
            await self._report_refusal()

    async def _request_certificate(self, hypervisor: Hypervisor) -> None:
        wanted = wanted_certificate(self._settings, hypervisor.status.internalIp)
        meta = wanted.metadata
        try:
            present = await self._kube.get(Certificate, meta.name, meta.namespace)
            write = decide(present, wanted)
            if write is not None and present is None:
                log.info("certificate_created", certificate=meta.name)
                with suppress(AlreadyExistsError):  # the operator was quicker
                    await self._kube.create(write)
            elif write is not None and present is not None:
                log.info("certificate_changed", certificate=meta.name)
                await self._kube.patch(present, write)
        except HypercobaltError as error:
            log.warning("certificate_not_requested", certificate=meta.name, error=str(error))

    async def _report_refusal(self) -> None:
        """Report that the Secret cannot be read, if that is why there is none."""
        name, namespace = secret_name(self._settings), self._settings.namespace
        try:
            await self._kube.list(Secret, namespace, fields=f"metadata.name={name}")
        except ForbiddenError as error:
            text = (
                f"Secret {namespace}/{name} cannot be read: {error}; give the agent's role list "
                "and watch of Secrets, or run agents and operator with --certificate-source=request"
            )
            self._installer.fail(CertificateReason.SECRET_FORBIDDEN, text)
        except HypercobaltError as error:  # the watch of the Secret is retried as well
            log.warning("secret_not_read", secret=name, error=str(error))

    async def _install(self, secret: Secret, internal_ip: str | None) -> None:
        source = f"Secret {secret.metadata.name}"
        try:
            files = self._installer.layout.plan(secret.data)
        except CertificateFilesError as error:
            self._installer.fail(CertificateReason.FAILED_TO_UPDATE, f"{source}: {error}")
            return
        names = names_of(self._settings, internal_ip)
        await self._installer.put(files, names, source)
