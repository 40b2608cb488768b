"""Installs the host's TLS Secret for libvirt, and has a certificate made where that is asked for.

The Secret `tls-libvirt-<host>` counts only in the agent's own namespace. Its contents are put in
place as `certificate_files` says; then the services are told: by a unit of the host, or else by a
restart of libvirtd, which does not disturb guests. Only then is the Secret taken as installed, so a
crash at any point ends in the same again.

The Certificate `libvirt-<host>` is made when `spec.createCertManagerCertificate` is set. One that
somebody else made, such as the operator, is left alone: the label says whose it is.

Source: kvm-node-agent, internal/controller/secret_controller.go and internal/certificates.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.host.port import Units
from hypercobalt.api.certificate import (
    Certificate,
    CertificatePrivateKey,
    CertificateSpec,
    IssuerReference,
    X509Subject,
)
from hypercobalt.api.core import Secret
from hypercobalt.api.duration import format_duration
from hypercobalt.api.host_certificate import AGENT, MANAGED_BY
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import CertificateReason
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.host.certificate_check import CertificateFilesError
from hypercobalt.node_agent.host.certificate_files import plan
from hypercobalt.node_agent.host.certificate_install import Installer
from hypercobalt.node_agent.host.own_names import own_names
from hypercobalt.node_agent.status.board import Board
from hypercobalt.runtime import AlreadyExistsError, Kube
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
"""Files that somebody else changed are put right, and what failed is tried again, this often."""

DURATION: Final = timedelta(days=47)
RENEW_BEFORE: Final = timedelta(days=37)
USAGES: Final = ("server auth", "client auth", "digital signature", "key encipherment")


@dataclass(frozen=True, slots=True)
class Settings:
    """Where certificates come from and go to.

    Args:
        host: name of the Node.
        namespace: the agent's own.
        root: directory for certificates, PKI_PATH.
        issuer: name of the cert-manager Issuer in the namespace; "": none can be asked for.
        addresses: of the host, for the certificate, besides the Hypervisor's internal one.
    """

    host: str
    namespace: str
    root: Path
    issuer: str = ""
    addresses: tuple[str, ...] = ()

    @property
    def secret_name(self) -> str:
        return f"tls-libvirt-{self.host}"


def wanted_certificate(settings: Settings, internal_ip: str | None) -> Certificate:
    """The Certificate of this host, as the operator would make it."""
    names = own_names(settings.host, (*settings.addresses, internal_ip or ""))
    return Certificate(
        metadata=ObjectMeta(
            name=f"libvirt-{settings.host}",
            namespace=settings.namespace,
            labels={MANAGED_BY: AGENT},
        ),
        spec=CertificateSpec(
            secretName=settings.secret_name,
            issuerRef=IssuerReference(name=settings.issuer, kind="Issuer", group="cert-manager.io"),
            commonName=settings.host,
            dnsNames=(settings.host,),
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
    """Keeps the host's certificate asked for and installed.

    Args:
        hypervisor: the own one.
        secret: `tls-libvirt-<host>` in the agent's own namespace.
    """

    def __init__(
        self,
        settings: Settings,
        units: Units,
        kube: Kube,
        *,
        hypervisor: Latest[Hypervisor],
        secret: Latest[Secret],
        board: Board,
        resync: timedelta = RESYNC,
    ) -> None:
        self._settings, self._kube = settings, kube
        self._hypervisor, self._secret = hypervisor, secret
        self._installer = Installer(settings.root, units, board)
        self._resync = resync

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
            await self._ask_for_certificate(hypervisor)
        elif spec.createCertManagerCertificate:
            log.warning("no_issuer_for_certificate", host=self._settings.host)
        if spec.installCertificate is False:
            self._installer.drop()
        elif secret is not None:
            await self._install(secret, hypervisor.status.internalIp)

    async def _ask_for_certificate(self, hypervisor: Hypervisor) -> None:
        wanted = wanted_certificate(self._settings, hypervisor.status.internalIp)
        meta = wanted.metadata
        try:
            present = await self._kube.get(Certificate, meta.name, meta.namespace)
            write = decide(present, wanted)
            if write is not None and present is None:
                log.info("creating_certificate", certificate=meta.name)
                with suppress(AlreadyExistsError):  # whoever was first has it
                    await self._kube.create(write)
            elif write is not None and present is not None:
                log.info("changing_certificate", certificate=meta.name)
                await self._kube.patch(present, write)
        except HypercobaltError as error:
            log.warning("certificate_not_asked_for", certificate=meta.name, error=str(error))

    async def _install(self, secret: Secret, internal_ip: str | None) -> None:
        source = f"Secret {secret.metadata.name}"
        try:
            files = plan(secret.data)
        except CertificateFilesError as error:
            self._installer.fail(CertificateReason.FAILED_TO_UPDATE, f"{source}: {error}")
            return
        names = own_names(self._settings.host, (*self._settings.addresses, internal_ip or ""))
        await self._installer.put(files, names, source)
