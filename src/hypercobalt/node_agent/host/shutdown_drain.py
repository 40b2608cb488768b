"""Drains the host before it shuts down: delays the shutdown until its instances have moved.

While instances run and `spec.evacuateOnReboot` is set, the agent holds a delay inhibitor of logind.
When a shutdown begins, an Eviction named like the host is made, and the inhibitor is released once
that Eviction has ended, no instance runs any more, or there is no time left. An Eviction of another
maker is waited for while it goes on, and replaced when it has ended and instances still run. If the
API cannot be reached, no instance can be moved, so the host waits for a short time only. Once the
host is up again, or the shutdown is called off, the Eviction is deleted: one that goes on would
empty a host that is in service, and the next maintenance would take one that has ended for its own.

A Hypervisor that does not fit its type is read in part, as it may want a drain. Without one nothing
is held back: the operator would work no Eviction off.

Invariant: whatever happens, the delay ends within logind's limit.

Source: kvm-node-agent, internal/evacuation, whose Eviction this is; systemd's "Inhibitor Locks".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from datetime import timedelta
from enum import Enum, auto
from typing import Final

from hypercobalt.adapters.host.port import HostError, Shutdown
from hypercobalt.api.eviction import Eviction, Trigger, has_ended, whole_host
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_glance import HypervisorGlance
from hypercobalt.api.meta import Object, owner_reference
from hypercobalt.errors import HypercobaltError, TerminalError
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.parts import Board, Parts
from hypercobalt.runtime import AlreadyExistsError, Backoff, Kube
from hypercobalt.runtime.observable import Observable
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.write_cache import Latest

log = get_logger(__name__)

REASON: Final = "kvm-node-agent: emergency evacuation due to host reboot"
WHO: Final = "hypercobalt node-agent"
WHY: Final = "Instances are moved to other hosts first"
MARGIN: Final = timedelta(milliseconds=500)
"""Before logind's limit: the inhibitor is released so early, so that the shutdown is in order."""

API_PATIENCE: Final = timedelta(seconds=30)
"""How long an API that cannot be reached holds back a shutdown, at most."""

SHORT_LIMIT: Final = timedelta(minutes=1)
"""A limit of logind below this hardly suffices to move an instance; it is logged."""

_RETRY: Final = Backoff(base=timedelta(milliseconds=100), cap=timedelta(seconds=2))
_RETRY_REMOVING: Final = Backoff(base=timedelta(seconds=1), cap=timedelta(minutes=5))
LOOK: Final = timedelta(seconds=1)
"""Time between looks at the Eviction during a shutdown. A watch would be quicker, but no role can
allow it for one name that differs on each host: it would show the Evictions of all."""

RETRY_HOLD: Final = timedelta(seconds=5)
"""Time between attempts to take the inhibitor, while logind is not there."""


AGAIN: Final = timedelta(minutes=1)
"""Time between reads of a Hypervisor of which only a part can be read."""


class DrainStep(Enum):
    """What to do about the Eviction next."""

    CREATE = auto()
    REPLACE = auto()
    """The Eviction has ended, for an earlier shutdown or another maker, and instances run: replace
    it."""
    WAIT = auto()
    DONE = auto()


def is_wanted(hypervisor: Hypervisor | HypervisorGlance | None, parts: Parts) -> bool:
    """Whether a shutdown has to be held back: instances run here, and they should be moved.

    Launcher pods count as instances: they do not move, but people are told of them, and may end
    them in order. Until libvirt, or systemd, has been read, the instances of the status count.
    """
    if hypervisor is None or hypervisor.spec.evacuateOnReboot is False:
        return False
    stored = hypervisor.status.instances if isinstance(hypervisor, Hypervisor) else ()
    if parts.launchers is None:
        launched = any(instance.namespace is not None for instance in stored)
    else:
        launched = bool(parts.launchers)
    if parts.inventory is not None:
        return launched or any(domain.active for domain in parts.inventory.domains)
    return launched or any(one.active for one in stored if one.namespace is None)


def decide(eviction: Eviction | None, ours: str | None) -> DrainStep:
    """Choose the next step of a drain while instances run.

    Waiting is over at the end of an Eviction of the whole host that was made in this shutdown.
    Whatever ended before, or moved some instances only, has left those that run now.

    Args:
        eviction: the one with the host's name, None if there is none.
        ours: uid of the one that was made in this shutdown; None: none was made yet.
    """
    if eviction is None:
        return DrainStep.CREATE
    if not has_ended(eviction.status) or eviction.metadata.deletionTimestamp:
        # Also one of another maker, for maintenance perhaps: it does the same.
        return DrainStep.WAIT
    whole = not eviction.spec.instances
    return DrainStep.DONE if whole and eviction.metadata.uid == ours else DrainStep.REPLACE


def make_eviction(hypervisor: Object) -> Eviction:
    """The Eviction for a shutdown of the host."""
    owner = owner_reference(hypervisor)
    return whole_host(hypervisor, REASON, Trigger.HOST_SHUTDOWN, owner=owner)


def _is_for_shutdown(eviction: Eviction) -> bool:
    return eviction.spec.trigger == Trigger.HOST_SHUTDOWN or eviction.spec.reason == REASON


class ShutdownDrain:
    """Delays shutdowns of the host and drains it before one.

    Args:
        hypervisor: the own one.
        board: has the instances that run.
        node: name of the own Hypervisor.
        api_patience: how long an API that cannot be reached holds back a shutdown.
        retry: between attempts to take the inhibitor, while logind is not there.
        look: between two looks at the Eviction during a shutdown.
    """

    def __init__(
        self,
        shutdown: Shutdown,
        kube: Kube,
        hypervisor: Latest[Hypervisor],
        board: Board,
        *,
        node: str,
        api_patience: timedelta = API_PATIENCE,
        retry: timedelta = RETRY_HOLD,
        look: timedelta = LOOK,
    ) -> None:
        self._shutdown, self._kube = shutdown, kube
        self._hypervisor, self._board, self._node = hypervisor, board, node
        self._glance = Observable[HypervisorGlance | None](None)  # of one that cannot be read
        self._api_patience, self._retry = api_patience.total_seconds(), retry.total_seconds()
        self._look = look.total_seconds()
        self._shutting_down = Observable[bool | None](None)  # until logind has answered

    async def run(self) -> None:
        """Drain the host before each shutdown, until cancelled."""
        await first(self._follow(), self._guard(), self._tidy(), self._read_part())

    @property
    def _own(self) -> Hypervisor | HypervisorGlance | None:
        """The own Hypervisor, whole or in part; None: there is none, or nothing of it was read."""
        whole = self._hypervisor.value
        return whole if whole is not None or not self._hypervisor.problem else self._glance.value

    async def _read_part(self) -> None:
        """While the Hypervisor is there and cannot be read, read the part that a drain needs."""
        while True:
            if (problem := self._hypervisor.problem) and self._hypervisor.value is None:
                try:
                    fields = f"metadata.name={self._node}"
                    found = await self._kube.list(HypervisorGlance, fields=fields)
                    self._glance.set(next(iter(found.items), None))
                except HypercobaltError as error:
                    log.warning("hypervisor_not_read", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(AGAIN.total_seconds()):
                    await self._hypervisor.problem_changed(problem)

    async def _follow(self) -> None:
        """Follow whether a shutdown is being prepared."""
        async with aclosing(self._shutdown.preparations()) as preparations:
            async for preparing in preparations:
                if preparing or self._preparing:
                    log.info("shutdown_announced" if preparing else "shutdown_cancelled")
                self._shutting_down.set(preparing)

    async def _guard(self) -> None:
        complaint = ""
        while True:
            # Once let go, a shutdown that is under way cannot be delayed again.
            await self._until(lambda: self._is_wanted() and not self._preparing)
            try:
                limit = await self._shutdown.limit()
                if limit < SHORT_LIMIT:
                    log.warning("shutdown_limit_short", seconds=limit.total_seconds())
                async with self._shutdown.delay(who=WHO, why=WHY):
                    log.info("shutdown_inhibitor_taken")
                    await self._hold(limit)
                log.info("shutdown_inhibitor_released", preparing=self._preparing)
                complaint = ""
            except HostError as error:
                if str(error) != complaint:  # a host without logind must not fill its log
                    complaint = str(error)
                    log.warning("shutdown_inhibitor_not_taken", error=complaint)
                await asyncio.sleep(self._retry)

    async def _hold(self, limit: timedelta) -> None:
        """Return when a shutdown may proceed."""
        while self._is_wanted():
            await self._until(lambda: self._preparing or not self._is_wanted())
            if self._preparing:
                with suppress(HostError):  # the limit may have changed since; else it is as before
                    limit = await self._shutdown.limit()
                await self._drain(limit)
                if self._preparing:
                    return

    async def _drain(self, limit: timedelta) -> None:
        """Return when there is nothing to wait for, or no time left."""
        with suppress(TimeoutError):
            async with asyncio.timeout((limit - MARGIN).total_seconds()):
                done = self._until(lambda: not self._preparing or not self._is_wanted())
                await first(done, self._evict())

    async def _evict(self) -> None:
        """Have the instances moved; return when that has ended, or cannot begin."""
        clock = asyncio.get_running_loop().time
        failing_since: float | None = None
        failures, ours = 0, None
        while True:
            try:
                ours, ended = await self._step(ours)
                failing_since, failures = None, 0
                if ended:
                    return
            except TerminalError as error:
                log.warning("eviction_refused", error=str(error))
                return
            except HypercobaltError as error:
                log.warning("eviction_not_followed", error=str(error))
                failing_since = clock() if failing_since is None else failing_since
                if clock() - failing_since > self._api_patience:
                    return
                await asyncio.sleep(_RETRY.wait(failures))
                failures += 1

    async def _step(self, ours: str | None) -> tuple[str | None, bool]:
        """Do one step; return the uid of the Eviction made in this shutdown, and whether it ended.

        Raises:
            HypercobaltError: the API refuses, or cannot be reached.
        """
        hypervisor = self._own
        if hypervisor is None:
            return ours, True
        name = hypervisor.metadata.name
        eviction = await self._kube.get(Eviction, name)
        match decide(eviction, ours):
            case DrainStep.CREATE:
                log.info("eviction_created", eviction=name)
                ours = await self._create(hypervisor)
            case DrainStep.REPLACE if eviction:
                log.info("eviction_replaced", eviction=name)
                await self._kube.delete(Eviction, name, uid=eviction.metadata.uid)
            case DrainStep.WAIT if eviction:
                await asyncio.sleep(self._look)
            case _:
                log.info("eviction_ended", eviction=name)
                return ours, True
        return ours, False

    async def _create(self, hypervisor: Object) -> str | None:
        try:
            return (await self._kube.create(make_eviction(hypervisor))).metadata.uid
        except AlreadyExistsError:
            # Maintenance was quicker and would be again, so its Eviction counts as this one; or the
            # answer to the create was lost.
            present = await self._kube.get(Eviction, hypervisor.metadata.name)
            return present.metadata.uid if present else None

    async def _tidy(self) -> None:
        """While no shutdown is prepared, remove the Eviction that an earlier one has left.

        Until logind has answered, the Eviction may be that of a shutdown under way.
        """
        while True:
            await self._until(lambda: self._own is not None and self._shutting_down.value is False)
            again = self._until(lambda: self._preparing)
            await first(again, self._remove_left_over())
            await self._until(lambda: self._preparing)

    async def _remove_left_over(self) -> None:
        failures = 0
        while (hypervisor := self._own) is not None:
            name = hypervisor.metadata.name
            try:
                eviction = await self._kube.get(Eviction, name)
                if eviction is None or not _is_for_shutdown(eviction):
                    return
                if eviction.metadata.deletionTimestamp:
                    return  # the operator cancels what it still moves
                log.info("eviction_removed", eviction=name)
                await self._kube.delete(Eviction, name, uid=eviction.metadata.uid)
            except HypercobaltError as error:
                log.warning("eviction_not_removed", eviction=name, error=str(error))
                await asyncio.sleep(_RETRY_REMOVING.wait(failures))
                failures += 1

    @property
    def _preparing(self) -> bool:
        """Whether a shutdown is being prepared."""
        return self._shutting_down.value is True

    def _is_wanted(self) -> bool:
        return is_wanted(self._own, self._board.parts)

    async def _until(self, holds: Callable[[], bool]) -> None:
        while not holds():
            hypervisor, parts = self._hypervisor.value, self._board.parts
            await first(
                self._hypervisor.changed(hypervisor),
                self._glance.changed(self._glance.value),
                self._board.changed(parts),
                self._shutting_down.changed(self._shutting_down.value),
            )
