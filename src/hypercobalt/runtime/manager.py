"""Runs everything that a process has: informers, controllers, the lease, Events, endpoints.

Start: informers first, so that a candidate's caches are warm; controllers and services that need
the lease begin when this process holds it. Stop (SIGTERM, SIGINT or `stop()`): controllers finish
the passes under way, are cancelled when the deadline is over, the lease is released, Events are
flushed. A task that goes on though cancelled ends with the process. Losing the lease stops the
process with an error, so that it starts again with nothing in memory.

Source: sigs.k8s.io/controller-runtime, pkg/manager.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Literal, TypeVar, cast

from hypercobalt.api.address import Address
from hypercobalt.api.meta import Object
from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.cache import IndexFunction
from hypercobalt.runtime.client.kube import Kube
from hypercobalt.runtime.client.requests import Selection
from hypercobalt.runtime.clock import SystemClock
from hypercobalt.runtime.controller import Controller
from hypercobalt.runtime.endpoints import (
    Check,
    Endpoints,
    Guard,
    Refresh,
)
from hypercobalt.runtime.events import Recorder
from hypercobalt.runtime.informer import Informer
from hypercobalt.runtime.leader import Election, LeaderElector, end_process, process_identity
from hypercobalt.runtime.metrics import Metrics
from hypercobalt.runtime.tasks import first, sole

log = get_logger(__name__)

T = TypeVar("T", bound=Object)
Service = Callable[[asyncio.Event], Coroutine[None, None, None]]
SERVICES_STOP = timedelta(seconds=5)  # after the controllers; enough to write the last Events
LAST = timedelta(seconds=3)  # after that, for cancelled services: release the Lease, close clients


class Manager:
    """One process's controllers and what they need.

    Args:
        kube: the process's client; the caller closes it.
        metrics: those that the client was given.
        election: the lease to lead under; None runs every controller at once.
        address: of the health and readiness pages; None serves none.
        metrics_address: of the metrics page; None serves none.
        metrics_guard: who may read that page; None serves it to all, without TLS.
        stop_deadline: for controllers to finish; 8 s later `run` is over, or the process ends, so
            the pod's or unit's own deadline is longer than that.
        abort: ends the process; see `LeaderElector`.

    Attributes:
        client: the process's client, which writes whether this process leads or not.
        kube: the client for reconcilers; under an election it refuses to write when this process
            does not lead.
        metrics: of the process.
        leader_guard: raises `NotLeadingError` when this process does not lead; for changes that
            are made elsewhere than in Kubernetes. Any thread may call it.
        address: where the health pages are served, with the real port; None before.
        metrics_address: where the metrics page is served, with the real port; None before.
    """

    def __init__(
        self,
        kube: Kube,
        *,
        metrics: Metrics,
        election: Election | None = None,
        address: Address | None = None,
        metrics_address: Address | Literal["same"] | None = "same",
        metrics_guard: Guard | None = None,
        stop_deadline: timedelta = timedelta(seconds=20),
        abort: Callable[[], None] = end_process,
    ) -> None:
        self.client, self.metrics = kube, metrics
        self.clock = SystemClock()
        self._elector = (
            LeaderElector(kube, election, clock=self.clock, metrics=metrics, abort=abort)
            if election
            else None
        )
        self.kube = kube.guarded(self._elector.check) if self._elector else kube
        self.leader_guard: Callable[[], None] = self._elector.check if self._elector else _always
        self._identity = election.identity if election else process_identity()
        self.address: Address | None = None
        self.metrics_address: Address | None = None
        self._listen, self._stop_deadline = address, stop_deadline
        self._listen_metrics = address if metrics_address == "same" else metrics_address
        self._metrics_guard = metrics_guard
        self._refreshes: list[Refresh] = []
        self._informers: dict[Selection[Object], Informer[Object]] = {}
        self._controllers: list[Controller] = []
        self._services: dict[str, Service] = {}
        self._leading: dict[str, Service] = {}
        self._healthy: dict[str, Check] = {}
        self._ready: dict[str, Check] = {"caches": self._unsynced}
        self._stop = asyncio.Event()
        self._abort = abort
        self._overdue: asyncio.TimerHandle | None = None

    def informer(
        self,
        type_: type[T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        indexes: Mapping[str, IndexFunction[T]] | None = None,
        managers: bool = False,
    ) -> Informer[T]:
        """The informer of a selection; a second call without indexes gives the same one.

        Args:
            type_: of the objects.
            namespace: of the objects; None takes all.
            labels: selector.
            fields: selector.
            indexes: see `Cache`.
            managers: see `Cache`.

        Raises:
            ConfigurationError: indexes for a selection that has an informer already.
        """
        selection = Selection(type_, namespace, labels, fields)
        known = self._informers.get(cast("Selection[Object]", selection))
        if known is not None:
            if indexes:
                raise ConfigurationError(f"informer {selection.about}: name its indexes first")
            return cast("Informer[T]", known)
        made = Informer(
            self.client, selection, metrics=self.metrics, indexes=indexes, managers=managers
        )
        self._informers[cast("Selection[Object]", selection)] = cast("Informer[Object]", made)
        return made

    def add(self, controller: Controller) -> None:
        """Have a controller run.

        Raises:
            ConfigurationError: there is one of that name.
        """
        if any(known.name == controller.name for known in self._controllers):
            raise ConfigurationError(f"two controllers have the name {controller.name!r}")
        self._controllers.append(controller)

    def add_service(self, name: str, service: Service, *, leader_only: bool = False) -> None:
        """Have `service(stop)` run from start to stop; its error ends the run.

        It is stopped after the controllers, and cancelled if that takes longer than 5 s. One that
        is `leader_only` begins when this process leads, and is stopped with the controllers.

        Raises:
            ConfigurationError: there is one of that name.
        """
        if name in self._services or name in self._leading:
            raise ConfigurationError(f"two services have the name {name!r}")
        (self._leading if leader_only else self._services)[name] = service

    def add_check(self, name: str, check: Check, *, readiness: bool = False) -> None:
        """Have `check` be part of `/healthz`, or of `/readyz`."""
        (self._ready if readiness else self._healthy)[name] = check

    def add_refresh(self, refresh: Refresh) -> None:
        """Have `refresh` awaited before each scrape of `/metrics`; it bounds its own time."""
        self._refreshes.append(refresh)

    def recorder(self, controller: str) -> Recorder:
        """A recorder whose Events this manager writes; `controller` is a qualified name."""
        made = Recorder(
            self.client, controller, self._identity, clock=self.clock, metrics=self.metrics
        )
        self.add_service(f"events-{controller}", made.run)
        return made

    def stop(self) -> None:
        """Request the end of `run`."""
        self._stop.set()

    async def run(self) -> None:
        """Run until stopped.

        Raises:
            LeadershipLostError: the lease went.
            ConfigurationError: the address cannot be had.
        """
        try:
            async with self._signals(), self._endpoints(), asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(informer.run(), name=f"informer-{selection.about}")
                    for selection, informer in self._informers.items()
                ]
                await self._run_until_stopped()
                for task in background:
                    task.cancel()
        except BaseExceptionGroup as group:
            raise sole(group) from group
        finally:
            if self._overdue is not None:
                self._overdue.cancel()

    async def _run_until_stopped(self) -> None:
        late = asyncio.Event()  # services outlive the controllers: they still record Events
        async with asyncio.TaskGroup() as tasks:
            services = {
                tasks.create_task(service(late), name=name)
                for name, service in self._services.items()
            }
            work = tasks.create_task(self._work(), name="controllers")
            try:
                await first(self._stop.wait(), _ended({work}))
            finally:
                self._bound_the_end()
            await _end({work}, self._stop_deadline)
            late.set()
            await _end(services, SERVICES_STOP)

    def _bound_the_end(self) -> None:
        left = self._stop_deadline + SERVICES_STOP + LAST
        self._overdue = asyncio.get_running_loop().call_later(left.total_seconds(), self._give_up)

    def _give_up(self) -> None:
        going_on = sorted(task.get_name() for task in asyncio.all_tasks())
        log.critical("process_aborted", reason="cancelled work goes on", tasks=going_on)
        self._abort()

    async def _work(self) -> None:
        leading = [*self._leading.items()]
        for controller in self._controllers:
            work = partial(controller.run, metrics=self.metrics, clock=self.clock)
            leading.append((controller.name, work))
        async with asyncio.TaskGroup() as tasks:
            if leading and self._elector:
                tasks.create_task(
                    self._elector.run(lambda: self._run_all(leading), self._stop), name="lease"
                )
            elif leading:
                tasks.create_task(self._run_all(leading), name="leading")
            await self._stop.wait()

    async def _run_all(self, services: Iterable[tuple[str, Service]]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, service in services:
                tasks.create_task(service(self._stop), name=name)

    def _unsynced(self) -> str | None:
        waiting = [s.about for s, informer in self._informers.items() if not informer.has_synced]
        return f"not read yet: {', '.join(waiting)}" if waiting else None

    @asynccontextmanager
    async def _endpoints(self) -> AsyncGenerator[None]:
        health, metrics = self._listen, self._listen_metrics
        together = metrics == health and self._metrics_guard is None
        async with AsyncExitStack() as stack:
            if health is not None:
                self.address = await self._serve(stack, health, health=True, metrics=together)
                self.metrics_address = self.address if together else None
            if metrics is not None and not together:
                self.metrics_address = await self._serve(stack, metrics, health=False, metrics=True)
            yield

    async def _serve(
        self, stack: AsyncExitStack, listen: Address, *, health: bool, metrics: bool
    ) -> Address:
        pages = Endpoints(
            listen,
            registry=self.metrics.registry if metrics else None,
            healthy=self._healthy if health else None,
            ready=self._ready if health else None,
            refreshes=self._refreshes,
            guard=None if health else self._metrics_guard,
        )
        address = await pages.start()
        stack.push_async_callback(pages.stop)
        return address

    @asynccontextmanager
    async def _signals(self) -> AsyncGenerator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, self._signalled, signal.Signals(number).name)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def _signalled(self, name: str) -> None:
        log.info("stop_requested", signal=name)
        self.stop()


def _always() -> None:
    """A process without an election may act."""


async def _ended(tasks: set[asyncio.Task[None]]) -> None:
    if tasks:
        await asyncio.wait(tasks)


async def _end(tasks: set[asyncio.Task[None]], deadline: timedelta) -> None:
    """Wait for tasks that are to end, and cancel those that do not in time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(deadline.total_seconds()):
            await _ended(tasks)
    late = {task for task in tasks if not task.done()}
    for task in late:
        log.warning("task_cancelled", task=task.get_name(), deadline=str(deadline))
        task.cancel()
    await _ended(late)
