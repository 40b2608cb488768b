"""virt-api's process: its settings, passed on by the command line, and what runs in it.

Any number of processes may serve: none of them keeps anything. With a certificate of its own, which
nobody else has, there is one.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import KW_ONLY, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from hypercobalt.agent.diagnostics.listener import ListenerTls
from hypercobalt.api.address import Address
from hypercobalt.errors import ConfigurationError
from hypercobalt.launch import ProcessSettings
from hypercobalt.runtime import Manager, load_connection
from hypercobalt.runtime.certificate_files import CertificateFiles
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.process import managed
from hypercobalt.runtime.routes import Request, Requester, Route
from hypercobalt.tls.server import server_context
from hypercobalt.virt.api.bundle import Authority, add_bundles, add_service_bundle
from hypercobalt.virt.api.counts import ReviewCounts
from hypercobalt.virt.api.handler_address import ANYWHERE, HandlerNetwork
from hypercobalt.virt.api.pages import BOUNDS, WebhookPages
from hypercobalt.virt.api.subresource_server import ClientTls, SubresourceServer
from hypercobalt.virt.api.subresources import OwnAccount
from hypercobalt.virt.api.verdicts import VMIAdmission
from hypercobalt.virt.api.webhooks import Admission
from hypercobalt.vmi.accounts import Account
from hypercobalt.vmi.cluster import ClusterConfig

COMPONENT: Final = "virt-api"
_NO_CERTIFICATE: Final = "virt-api has no certificate: give --certificate-path"


@dataclass(frozen=True, slots=True)
class VirtAPISettings(ProcessSettings):
    """Settings that the command line passes to the process; they hold no secret.

    Args:
        listen: where the webhooks are served.
        files: directory of `tls.crt`, `tls.key` and `ca.crt`; None: the next counts.
        certificate: descriptor of a certificate that signs itself, and its key, in PEM form.
        register: keep the CA in the webhook configurations of the cluster, and in the APIService.
        subresources: where consoles are served to the API server; None: nowhere.
        handlers: where virt-handlers are.
        cluster: settings of KubeVirt.
    """

    listen: Address
    _: KW_ONLY
    files: Path | None = None
    certificate: int | None = None
    register: bool = True
    subresources: Address | None = None
    handlers: HandlerNetwork = ANYWHERE
    cluster: ClusterConfig


async def run(settings: VirtAPISettings) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        ConfigurationError: the kubeconfig, the certificate or an address cannot be used.
    """
    agent = f"{COMPONENT}/{version('hypercobalt')}"
    connection = load_connection(settings.kubeconfig)
    async with managed(settings, connection, agent) as manager:
        add_subresources(manager, settings)
        tls, authority = _certificate(settings)
        if settings.register:
            add_bundles(manager, authority)
            if settings.subresources is not None:
                add_service_bundle(manager, authority)
        admission = VMIAdmission(settings.cluster)
        add_webhooks(manager, settings.listen, admission, Guard(tls, _everybody))
        await manager.run()


def add_subresources(manager: Manager, settings: VirtAPISettings) -> None:
    """Have a manager serve consoles for as long as it runs, if the settings have it on.

    Raises:
        ConfigurationError: the certificate cannot be used.
    """
    if settings.subresources is None:
        return
    server = SubresourceServer(
        manager,
        settings.subresources,
        _client_tls(settings),
        account=OwnAccount(settings.cluster.namespace, Account.API),
        network=settings.handlers,
    )
    manager.add_service("subresources", server.run)


def _client_tls(settings: VirtAPISettings) -> ClientTls:
    if settings.files is not None:
        return CertificateFiles(settings.files, verifies=True)
    if settings.certificate is None:
        raise ConfigurationError(_NO_CERTIFICATE)
    return ListenerTls(os.dup(settings.certificate))


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
        raise ConfigurationError(_NO_CERTIFICATE)
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
