"""The HTTPS server of an agent, for people: where it listens, whom it admits, what it offers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from hypercobalt.agent.diagnostics.counts import Counts, UseOutcome, outcome_of
from hypercobalt.agent.diagnostics.pinned_server import PinnedServer
from hypercobalt.agent.diagnostics.record import Records
from hypercobalt.agent.diagnostics.serving import UseServer
from hypercobalt.agent.diagnostics.use import VERBS, Use
from hypercobalt.agent.settings import AgentSettings
from hypercobalt.api.access import ResourceAttributes
from hypercobalt.api.address import Address
from hypercobalt.api.diagnostics import DiagnosticsEndpoint, audience, path
from hypercobalt.api.meta import Object
from hypercobalt.runtime import Manager
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.leader import process_identity
from hypercobalt.runtime.resource_guard import ResourceGuard
from hypercobalt.runtime.routes import Answer, Request, Requester, Route

Concern = Callable[[], Coroutine[None, None, None]]

_MOST_PATH: Final = 200  # characters of a method and a path, in an Event
_RECORD_SECONDS: Final = 10.0  # for the Event of a use, on top of what the use may take


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
    """Return the concern that serves people; None where the settings switch diagnostics off."""
    if settings.diagnostics is None:
        return None
    server = Diagnostics(
        manager, settings, settings.diagnostics, subject=subject, uses=uses, publish=publish
    )
    return server.run


class Diagnostics:
    """Serves uses to people for as long as `run` runs.

    Args:
        settings: of the agent.
        listen: where.
        publish: is given where the server is, once it listens.
    """

    def __init__(
        self,
        manager: Manager,
        settings: AgentSettings,
        listen: Address,
        *,
        subject: Subject,
        uses: Sequence[Use],
        publish: Callable[[DiagnosticsEndpoint], None],
    ) -> None:
        self._subject = subject
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
        routes = [self._route(use) for use in uses]
        self._server = PinnedServer(
            manager, settings, listen, routes=routes, admits=self._admits, publish=publish
        )

    async def run(self) -> None:
        """Serve until cancelled."""
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            recording = tasks.create_task(self._recorder.run(stop), name="diagnostics-events")
            try:
                await self._server.run()
            finally:
                stop.set()
                await asyncio.wait({recording})

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
