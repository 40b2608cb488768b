"""An HTTPS server of a host that people know by its certificate's digest, published by the agent.

It follows the client CA of the cluster, finds the address that leads to this host, and tries again
where the port is taken.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Final
from urllib.parse import urlsplit

from hypercobalt.agent.diagnostics.listener import (
    CLIENT_CA_CONFIG,
    CLIENT_CA_NAMESPACE,
    ListenerTls,
)
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.address import Address
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.errors import ConfigurationError
from hypercobalt.launch import own_certificate
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Informer, Manager
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.routes import Answer, Request, Requester, Route
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

Admits = Callable[[Request, Route | None], Coroutine[None, None, Requester | Answer]]

_AGAIN_SECONDS: Final = 10.0  # until the next attempt to listen: no event reports a free port


class PinnedServer:
    """Serves pages for as long as `run` runs.

    Args:
        manager: gives the client and the metrics.
        settings: of the agent: address, certificate, and the address that people reach.
        listen: where.
        routes: the pages.
        admits: who may have which page.
        publish: is given where the server is, once it listens.
    """

    def __init__(
        self,
        manager: Manager,
        settings: AgentSettings,
        listen: Address,
        *,
        routes: Sequence[Route],
        admits: Admits,
        publish: Callable[[DiagnosticsEndpoint], None],
    ) -> None:
        certificate = settings.diagnostics_certificate
        self._tls = ListenerTls(own_certificate() if certificate is None else certificate)
        self._api_server, self._advertised = manager.kube.server, settings.host_address
        self._publish = publish
        self._client_ca = Informer(
            manager.kube,
            Selection(ConfigMap, CLIENT_CA_NAMESPACE, "", f"metadata.name={CLIENT_CA_CONFIG}"),
            metrics=manager.metrics,
        )
        self._pages = Endpoints(listen, routes=routes, guard=Guard(self._tls.context, admits))

    async def run(self) -> None:
        """Serve until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            trust = Latest(self._client_ca)
            following = (
                tasks.create_task(self._client_ca.run(), name="client-ca"),
                tasks.create_task(self._tls.follow(trust), name="client-ca-trust"),
            )
            try:
                await self._serve()
            finally:
                await self._pages.stop()
                for task in following:
                    task.cancel()

    async def _serve(self) -> None:
        """Listen and publish where, until cancelled; nothing else of the agent waits for that."""
        taken: Address | None = None
        while True:
            try:
                taken = taken or await self._pages.start()
                self._publish(await self._endpoint(taken))
            except ConfigurationError as error:
                log.warning("diagnostics_not_served", error=str(error))
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                await asyncio.Event().wait()

    async def _endpoint(self, taken: Address) -> DiagnosticsEndpoint:
        host = self._advertised or taken.host
        if host in {"", "0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
            host = await outgoing_address(self._api_server)
        shown = f"[{host}]" if ":" in host else host
        return DiagnosticsEndpoint(
            url=f"https://{shown}:{taken.port}", certificateSHA256=self._tls.fingerprint
        )


async def outgoing_address(server: str) -> str:
    """The address of this host that packets to a server leave from; none is sent.

    Raises:
        ConfigurationError: the server has no address, or no route leads there.
    """
    parts = urlsplit(server)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)
            host: str = probe.getsockname()[0]
    except OSError as error:
        raise ConfigurationError(
            f"no address of this host leads to {server}: {error}; set HOST_IP_ADDRESS"
        ) from error
    return host
