"""The port of virt-api that an API server passes people's requests to.

Apart from the port of the webhooks: sessions that last for hours take no place from reviews, and a
client certificate that an API server shows to webhooks is not asked for there.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from hypercobalt.api.address import Address
from hypercobalt.api.core import ConfigMap
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Informer, Manager
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.listener import Bounds
from hypercobalt.runtime.tasks import beside
from hypercobalt.runtime.write_cache import Latest
from hypercobalt.virt.api.front_proxy import CONFIG, NAMESPACE, FrontProxy, published
from hypercobalt.virt.api.handler_address import HandlerNetwork
from hypercobalt.virt.api.subresources import SESSIONS, OwnAccount, Subresources

log = get_logger(__name__)

BOUNDS: Final = Bounds(places=2 * SESSIONS + 32)
"""Connections: half of them of one API server, whose sessions leave it places for discovery."""

_AGAIN_SECONDS: Final = (
    30.0  # until the certificate's files are looked at again: they have no event
)


class ClientTls(Protocol):
    """The TLS of a listener whose clients may show certificates."""

    @property
    def context(self) -> ssl.SSLContext:
        """The context of the listener."""
        ...

    def trust(self, authorities: str) -> None:
        """Have new connections verified by these CAs.

        Raises:
            ValueError: they cannot be used.
        """
        ...


class SubresourceServer:
    """Serves the group for as long as `run` runs.

    Args:
        manager: gives the client and the metrics.
        listen: where.
        tls: of the listener.
        account: of this process.
        network: where handlers are.
        opened: is given where it listens.
    """

    def __init__(
        self,
        manager: Manager,
        listen: Address,
        tls: ClientTls,
        *,
        account: OwnAccount,
        network: HandlerNetwork,
        opened: Callable[[Address], None] = lambda _: None,
    ) -> None:
        self._tls, self._opened, self._proxy = tls, opened, FrontProxy()
        self._config = Informer(
            manager.kube,
            Selection(ConfigMap, NAMESPACE, "", f"metadata.name={CONFIG}"),
            metrics=manager.metrics,
        )
        pages = Subresources(manager.kube, account, network, lambda: self._proxy)
        self._pages = Endpoints(
            listen, routes=pages.routes, guard=Guard(tls.context, pages.admits), bounds=BOUNDS
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until stopped.

        Raises:
            ConfigurationError: the address cannot be used.
        """
        found = Latest(self._config)
        async with (
            beside(self._config.run(), name="front-proxy"),
            beside(self._follow(found), name="front-proxy-trust"),
        ):
            self._opened(await self._pages.start())
            try:
                await stop.wait()
            finally:
                await self._pages.stop()

    async def _follow(self, found: Latest[ConfigMap]) -> None:
        """Believe what the API server publishes by now; nothing that cannot be used."""
        while True:
            config, again = found.value, None
            try:
                proxy = published(config.data if config is not None else {})
                self._tls.trust(proxy.authorities)
                log.info("front_proxy_trusted", bytes=len(proxy.authorities), names=proxy.names)
            except ValueError as error:
                about = f"{NAMESPACE}/{CONFIG}"
                log.warning("front_proxy_refused", config_map=about, error=str(error))
                proxy, again = FrontProxy(), _AGAIN_SECONDS
            self._proxy = proxy
            with suppress(TimeoutError):
                async with asyncio.timeout(again):
                    await found.changed(config)
