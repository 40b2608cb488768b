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
import ipaddress
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from hypercobalt.adapters.host.port import HostError, Units
from hypercobalt.api.certificate import (
    Certificate,
    CertificatePrivateKey,
    CertificateSpec,
    IssuerReference,
    X509Subject,
)
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.core import Secret
from hypercobalt.api.duration import format_duration
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import CertificateReason, HypervisorConditionType
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.host.certificate_files import (
    CertificateFilesError,
    File,
    install,
    is_loaded,
    mark_loaded,
    plan,
)
from hypercobalt.node_agent.latest import Latest
from hypercobalt.node_agent.status.board import Board
from hypercobalt.runtime import AlreadyExistsError, Kube
from hypercobalt.runtime.tasks import first

log = get_logger(__name__)

UPDATE_UNIT: Final = "virt-admin-server-update-tls.service"
LIBVIRT_UNIT: Final = "libvirtd.service"
RESYNC: Final = timedelta(minutes=5)
"""Files that somebody else changed are put right, and what failed is tried again, this often."""

MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGER: Final = "hypercobalt-node-agent"
DURATION: Final = timedelta(days=47)
RENEW_BEFORE: Final = timedelta(days=37)
USAGES: Final = ("server auth", "client auth", "digital signature", "key encipherment")

_CONDITION: Final = HypervisorConditionType.TLS_CERTIFICATE_INSTALLED


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
    return Certificate(
        metadata=ObjectMeta(
            name=f"libvirt-{settings.host}",
            namespace=settings.namespace,
            labels={MANAGED_BY: MANAGER},
        ),
        spec=CertificateSpec(
            secretName=settings.secret_name,
            issuerRef=IssuerReference(name=settings.issuer, kind="Issuer", group="cert-manager.io"),
            commonName=settings.host,
            dnsNames=(settings.host,),
            ipAddresses=_addresses((*settings.addresses, internal_ip or "")),
            duration=format_duration(DURATION),
            renewBefore=format_duration(RENEW_BEFORE),
            isCA=False,
            privateKey=CertificatePrivateKey(algorithm="RSA", encoding="PKCS1", size=4096),
            subject=X509Subject(organizations=("nova",)),
            usages=USAGES,
        ),
    )


def _addresses(texts: Sequence[str]) -> tuple[str, ...]:
    found: set[str] = set()
    for text in texts:
        with suppress(ValueError):
            found.add(str(ipaddress.ip_address(text)))
    return tuple(sorted(found))


def decide(present: Certificate | None, wanted: Certificate) -> Certificate | None:
    """The Certificate to write, None if what is there shall stay as it is."""
    if present is None:
        return wanted
    if present.metadata.labels.get(MANAGED_BY) != MANAGER or present.spec == wanted.spec:
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
        self._settings, self._units, self._kube = settings, units, kube
        self._hypervisor, self._secret, self._board = hypervisor, secret, board
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
            self._board.drop_condition(_CONDITION)
        elif secret is not None:
            await self._install(secret)

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

    async def _install(self, secret: Secret) -> None:
        name = secret.metadata.name
        try:
            files = plan(secret.data)
            if not await asyncio.to_thread(is_loaded, self._settings.root, files):
                log.info("installing_certificate", secret=name)
                self._say(CertificateReason.INSTALLING, f"Secret {name} is being installed")
                await asyncio.to_thread(install, self._settings.root, files)
                if not await self._tell_services(files):
                    return
        except CertificateFilesError as error:
            self._fail(CertificateReason.FAILED_TO_UPDATE, f"Secret {name}: {error}")
        except OSError as error:
            # The text has the path, never content.
            self._fail(CertificateReason.FAILED_TO_UPDATE, f"Secret {name}: {error}")
        else:
            self._say(CertificateReason.READY, f"Secret {name} is installed")

    async def _tell_services(self, files: tuple[File, ...]) -> bool:
        """Have libvirt load the files; gives whether it has."""
        try:
            await self._units.start(UPDATE_UNIT)
        except HostError as error:
            self._fail(CertificateReason.FAILED_TO_START_UPDATE, str(error))
            try:
                await self._units.restart(LIBVIRT_UNIT)
            except HostError as worse:
                self._fail(CertificateReason.FAILED_TO_START_UPDATE, f"{error}; {worse}")
                return False
        await asyncio.to_thread(mark_loaded, self._settings.root, files)
        return True

    def _say(self, reason: CertificateReason, message: str) -> None:
        ready = reason is CertificateReason.READY
        status = ConditionStatus.TRUE if ready else ConditionStatus.FALSE
        self._board.put_condition(_CONDITION, status, reason, message)

    def _fail(self, reason: CertificateReason, message: str) -> None:
        log.warning("certificate_not_installed", reason=reason, error=message)
        self._say(reason, message)
