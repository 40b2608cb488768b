"""virt-api's process: its settings, passed on by the command line, and what runs in it.

Any number of processes may serve: none of them keeps anything. With a certificate of its own, which
nobody else has, there is one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

import msgspec

from hypercobalt.api.address import Address
from hypercobalt.errors import ConfigurationError
from hypercobalt.runtime import Kube, Manager, Metrics, load_connection
from hypercobalt.runtime.certificate_files import CertificateFiles
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.guard import METRICS, guard
from hypercobalt.runtime.routes import Request, Requester, Route
from hypercobalt.tls.server import server_context
from hypercobalt.virt.api.bundle import Authority, add_bundles
from hypercobalt.virt.api.counts import ReviewCounts
from hypercobalt.virt.api.pages import BOUNDS, WebhookPages
from hypercobalt.virt.api.verdicts import VMIAdmission
from hypercobalt.virt.api.webhooks import Admission
from hypercobalt.vmi.cluster import ClusterConfig

COMPONENT: Final = "virt-api"


@dataclass(frozen=True, slots=True)
class VirtAPISettings:
    """Settings that the command line passes to the process; they hold no secret.

    Args:
        listen: where the webhooks are served.
        files: directory of `tls.crt`, `tls.key` and `ca.crt`; None: the next counts.
        certificate: descriptor of a certificate that signs itself, and its key, in PEM form.
        register: keep the CA in the webhook configurations of the cluster.
        cluster: settings of KubeVirt.
        kubeconfig: file; None looks where kubectl and pods do.
        metrics: where `/metrics` is served; None: nowhere.
        metrics_secure: serve `/metrics` over TLS, to clients that the API server allows.
        metrics_certificate: descriptor of the certificate and its key; None makes one.
        health: where `/healthz` and `/readyz` are served; None: nowhere.
        log_level: the lowest that is logged, as `logging` counts.
        log_text: log text rather than JSON; None: text on a terminal.
    """

    listen: Address
    _: KW_ONLY
    files: Path | None = None
    certificate: int | None = None
    register: bool = True
    cluster: ClusterConfig
    kubeconfig: Path | None = None
    metrics: Address | None = None
    metrics_secure: bool = True
    metrics_certificate: int | None = None
    health: Address | None = None
    log_level: int = logging.INFO
    log_text: bool | None = None


def encode_settings(settings: VirtAPISettings) -> str:
    """Write settings as the argument of the process."""
    return msgspec.json.encode(settings, enc_hook=str).decode()


def decode_settings(text: str) -> VirtAPISettings:
    """Read what `encode_settings` wrote."""
    return msgspec.json.decode(
        text, type=VirtAPISettings, dec_hook=lambda _type, value: Path(value)
    )


async def run(settings: VirtAPISettings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: the kubeconfig, the certificate or an address cannot be used.
    """
    metrics = Metrics()
    agent = f"{COMPONENT}/{version('hypercobalt')}"
    connection = load_connection(settings.kubeconfig)
    async with Kube(connection, field_manager=agent, metrics=metrics) as kube:
        secure = settings.metrics is not None and settings.metrics_secure
        manager = Manager(
            kube,
            metrics=metrics,
            address=settings.health,
            metrics_address=settings.metrics,
            metrics_guard=guard(kube, METRICS, settings.metrics_certificate) if secure else None,
        )
        tls, authority = _certificate(settings)
        if settings.register:
            add_bundles(manager, authority)
        admission = VMIAdmission(settings.cluster)
        add_webhooks(manager, settings.listen, admission, Guard(tls, _everybody))
        await manager.run()


def _certificate(settings: VirtAPISettings) -> tuple[ssl.SSLContext, Authority]:
    """The TLS of the listener, and what API servers verify it by.

    Raises:
        ConfigurationError: the files cannot be used.
    """
    if settings.files is not None:
        authority = Authority(settings.files)
        authority.bundle()  # one that cannot be read is refused here
        return CertificateFiles(settings.files).context, authority
    if settings.certificate is None:
        raise ConfigurationError("virt-api has no certificate: give --certificate-path")
    file = Path(f"/proc/self/fd/{settings.certificate}")
    context = server_context()
    try:
        context.load_cert_chain(file)
        head, end, _ = file.read_bytes().partition(b"-----END CERTIFICATE-----\n")
    finally:
        os.close(settings.certificate)
    return context, Authority(head + end)


def add_webhooks(manager: Manager, listen: Address, admission: Admission, admitted: Guard) -> None:
    """Have a manager serve the webhooks for as long as it runs."""
    pages = WebhookPages(admission, ReviewCounts(manager.metrics.registry))
    endpoints = Endpoints(listen, routes=pages.routes, guard=admitted, bounds=BOUNDS)

    async def serve(stop: asyncio.Event) -> None:
        await endpoints.start()
        try:
            await stop.wait()
        finally:
            await endpoints.stop()

    manager.add_service("webhooks", serve)


async def _everybody(_: Request, __: Route | None) -> Requester:
    """Admit all: an API server shows webhooks no identity."""
    return Requester("")
