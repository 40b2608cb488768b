"""The HTTPS server of an agent, for people: where it listens, whom it admits, what it offers."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from hypercobalt.agent.diagnostics.counts import Counts, UseOutcome, outcome_of
from hypercobalt.agent.diagnostics.listener import (
    CLIENT_CA_CONFIG,
    CLIENT_CA_NAMESPACE,
    ListenerTls,
)
from hypercobalt.agent.diagnostics.record import Records
from hypercobalt.agent.diagnostics.serving import UseServer
from hypercobalt.agent.diagnostics.use import VERBS, Use
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.access import ResourceAttributes
from hypercobalt.api.address import Address
from hypercobalt.api.core import ConfigMap
from hypercobalt.api.diagnostics import DiagnosticsEndpoint, audience, path
from hypercobalt.api.meta import Object
from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Informer, Manager
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.endpoints import Endpoints, Guard
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.guard import own_certificate
from hypercobalt.runtime.leader import process_identity
from hypercobalt.runtime.resource_guard import ResourceGuard
from hypercobalt.runtime.routes import Answer, Request, Requester, Route
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

Concern = Callable[[], Coroutine[None, None, None]]

_MOST_PATH: Final = 200  # characters of a method and a path, in an Event
_RECORD_SECONDS: Final = 10.0  # for the Event of a use, on top of what the use may take
_AGAIN_SECONDS: Final = 10.0  # until the next attempt to listen: no event reports a free port


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that the uses of an agent belong to.

    Args:
        agent: kind of agent, such as `ovs-agent`.
        type_: kind of the object.
        node: name of the object.
        namespace: of the object; "" for one of the cluster.
        controller: who reports Events, as a qualified name.
        value: gives the object; None while there is none.
    """

    agent: str
    type_: type[Object]
    node: str
    namespace: str
    controller: str
    value: Callable[[], Object | None]


def diagnostics(
    manager: Manager,
    settings: AgentSettings,
    subject: Subject,
    uses: Sequence[Use],
    publish: Callable[[DiagnosticsEndpoint], None],
) -> Concern | None:
    """Give what serves people for as long as it runs; None if the settings have it off."""
    if settings.diagnostics is None:
        return None
    certificate = settings.diagnostics_certificate
    return Diagnostics(
        manager,
        subject,
        uses,
        listen=settings.diagnostics,
        advertised=settings.host_address,
        certificate=own_certificate() if certificate is None else certificate,
        publish=publish,
    ).run


class Diagnostics:
    """Serves uses to people for as long as `run` runs.

    Args:
        listen: where.
        advertised: address of the host that people reach; "" finds it.
        certificate: descriptor of the server's certificate and key.
        publish: is given where the server is, once it listens.
    """

    def __init__(
        self,
        manager: Manager,
        subject: Subject,
        uses: Sequence[Use],
        *,
        listen: Address,
        advertised: str,
        certificate: int,
        publish: Callable[[DiagnosticsEndpoint], None],
    ) -> None:
        self._subject, self._kube = subject, manager.kube
        self._listen, self._advertised, self._publish = listen, advertised, publish
        self._tls = ListenerTls(certificate)
        self._recorder = Recorder(
            manager.kube,
            subject.controller,
            process_identity(),
            clock=manager.clock,
            metrics=manager.metrics,
        )
        self._records = Records(self._recorder)
        self._counts = Counts((use.name for use in uses), manager.metrics.registry)
        self._uses = UseServer(subject.value, self._records, self._counts, manager.clock)
        self._guard = ResourceGuard(manager.kube, audience(subject.agent, subject.node))
        self._published = Informer(
            manager.kube,
            Selection(ConfigMap, CLIENT_CA_NAMESPACE, "", f"metadata.name={CLIENT_CA_CONFIG}"),
            metrics=manager.metrics,
        )
        self._pages = Endpoints(
            listen,
            routes=[self._route(use) for use in uses],
            guard=Guard(self._tls.context, self._admits),
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(self._recorder.run(stop), name="diagnostics-events")
            trust = Latest(self._published)
            following = (
                tasks.create_task(self._published.run(), name="client-ca"),
                tasks.create_task(self._tls.follow(trust), name="client-ca-trust"),
            )
            try:
                await self._serve()
            finally:
                await self._pages.stop()
                for task in following:
                    task.cancel()
                stop.set()
                await asyncio.wait({recording})

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

    def _route(self, use: Use) -> Route:
        subject = self._subject
        info = subject.type_.resource
        return Route(
            path(subject.type_, subject.node, use.name),
            partial(self._uses.serve, use),
            method=use.method,
            most=use.most,
            seconds=use.seconds + _RECORD_SECONDS,
            lasts=use.lasts,
            access=ResourceAttributes(
                verb=VERBS[use.method],
                group=info.group,
                resource=info.plural,
                subresource=use.right,
                namespace=subject.namespace,
                name=subject.node,
            ),
        )

    async def _admits(self, request: Request, route: Route | None) -> Requester | Answer:
        use = route.path.rpartition("/")[2] if route is not None else ""
        try:
            found = await self._guard.admits(request, route)
        except asyncio.CancelledError:  # the API server does not answer in time
            self._counts.add(use, UseOutcome.TIMEOUT)
            raise
        if isinstance(found, Answer):
            self._counts.add(use, outcome_of(found.status))
        if isinstance(found, Answer) and (request.certificate or request.token):
            what = f"{request.method} {request.path}"[:_MOST_PATH]
            why = found.body.decode(errors="replace").strip()
            note = f"a client at {request.address} was refused {what}: {why}"
            self._records.refused(self._subject.value(), note)
        return found

    async def _endpoint(self, taken: Address) -> DiagnosticsEndpoint:
        host = self._advertised or taken.host
        if host in {"", "0.0.0.0", "::"}:  # noqa: S104 - compared, not bound
            host = await outgoing_address(self._kube.server)
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
