"""Keeps the board's inventory and `LibVirtConnection` equal to libvirt.

The adapter's events report what may have changed; what to read again follows from them. While one
read is under way further events only mark what is out of date, so a storm of events costs a few
reads and not one each. While libvirt is away the last inventory stays on the board. The condition
becomes True once the domains were read by this connection: until then the inventory is of before,
and an instance that is not in it may have come since.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from enum import Flag, auto
from typing import Final

from hypercobalt.adapters.libvirt.events import (
    Connected,
    Disconnected,
    DomainEvent,
    Event,
    EventKind,
    Lost,
)
from hypercobalt.adapters.libvirt.model import Domain
from hypercobalt.adapters.libvirt.port import Libvirt, LibvirtError
from hypercobalt.adapters.libvirt.vocabulary import Lifecycle
from hypercobalt.agent.text import condition_type
from hypercobalt.api.conditions import ConditionStatus
from hypercobalt.api.hypervisor_conditions import HypervisorConditionType, LibvirtConnectionReason
from hypercobalt.logs import get_logger
from hypercobalt.node_agent.status.parts import Board, Inventory, Parts
from hypercobalt.runtime import Backoff

log = get_logger(__name__)

RESYNC: Final = timedelta(minutes=5)
"""How often all is read, a safety net for what has no event: memory that the host gained, a driver
without some event."""

AFTERMATH: Final = (timedelta(milliseconds=500), timedelta(seconds=3))
"""When to look again after a stop: libvirt reports that a domain has stopped before it forgets it.

A domain that migrated away with its definition goes without any further event.
"""

_RETRY: Final = Backoff(base=timedelta(milliseconds=200), cap=timedelta(seconds=10))
_DAEMONS: Final = ("libvirtd", "virtqemud", "virtchd")
_CONDITION: Final = HypervisorConditionType.LIBVIRT_CONNECTION
_SHOWN_PROBLEMS: Final = 5
_TEXT: Final = 200  # characters of one domain's problem


class Due(Flag):
    """What has to be read again."""

    NOTHING = 0
    DOMAINS = auto()
    HOST = auto()
    ALL = DOMAINS | HOST


# What a domain does while its process stays (SUSPENDED, RESUMED, …) changes no field.
_CHANGES_THE_LIST: Final = frozenset(
    {
        Lifecycle.DEFINED,
        Lifecycle.UNDEFINED,
        Lifecycle.STARTED,
        Lifecycle.STOPPED,
        Lifecycle.CRASHED,
    }
)


def due_after(event: Event) -> Due:
    """What an event puts out of date."""
    match event:
        case Connected():
            return Due.ALL
        case Lost():
            return Due.DOMAINS
        case DomainEvent(kind=EventKind.LIFECYCLE, type=type_) if type_ in _CHANGES_THE_LIST:
            return Due.DOMAINS
        case DomainEvent(kind=EventKind.DEVICE_CHANGED):
            return Due.DOMAINS
        case _:
            return Due.NOTHING


def _is_stop(event: DomainEvent) -> bool:
    return event.kind is EventKind.LIFECYCLE and event.type == Lifecycle.STOPPED


class LibvirtState:
    """The one reader of libvirt's events.

    Args:
        units: the systemd units that are watched; those of libvirt's daemons explain a loss.
        listeners: are given each event, in order; they must not block.
    """

    def __init__(
        self,
        libvirt: Libvirt,
        board: Board,
        *,
        units: Sequence[str] = (),
        listeners: Sequence[Callable[[Event], None]] = (),
    ) -> None:
        self._libvirt, self._board = libvirt, board
        self._units = tuple(condition_type(unit) for unit in units if unit.startswith(_DAEMONS))
        self._listeners = tuple(listeners)
        self._link: Connected | Disconnected | None = None
        self._listed: Connected | None = None
        self._due = Due.NOTHING
        self._wake = asyncio.Event()
        self._failures, self._problem = 0, ""

    @property
    def settled(self) -> bool:
        """Whether it is known what libvirt has, or that it is away."""
        if isinstance(self._link, Connected):
            return self._board.parts.inventory is not None
        return self._link is not None

    async def run(self) -> None:
        """Follow libvirt until cancelled; its being away is not an error here."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow_units(), name="libvirt-units")
            tasks.create_task(self._read_when_due(), name="libvirt-inventory")
            async with aclosing(self._libvirt.events()) as events:
                async for event in events:
                    self._take(event)

    def _take(self, event: Event) -> None:
        if isinstance(event, Connected | Disconnected):
            _log_change(self._link, event)
            self._link = event
            self._failures, self._problem = 0, ""
            self._set_condition()
        self._mark(due_after(event))
        if isinstance(event, DomainEvent) and _is_stop(event):
            for delay in AFTERMATH:
                seconds = delay.total_seconds()
                asyncio.get_running_loop().call_later(seconds, self._mark, Due.DOMAINS)
        for listener in self._listeners:
            listener(event)

    def _mark(self, due: Due) -> None:
        self._due |= due
        if self._due:
            self._wake.set()

    async def _read_when_due(self) -> None:
        later = asyncio.get_running_loop().call_later
        full_pass: asyncio.TimerHandle | None = None
        while True:
            await self._wake.wait()
            self._wake.clear()
            due, self._due = self._due, Due.NOTHING
            if Due.HOST in due:
                if full_pass:
                    full_pass.cancel()
                full_pass = later(RESYNC.total_seconds(), self._mark, Due.ALL)
            if not isinstance(self._link, Connected):
                continue  # the next Connected makes everything due
            try:
                await self._read(due, self._link)
            except LibvirtError as error:
                self._due |= due
                await self._failed(error)
            else:
                self._failures, self._problem = 0, ""
                self._set_condition()

    async def _read(self, due: Due, link: Connected) -> None:
        """Read what is due; domains first, as they change and the host's answers may be slow."""
        known = self._board.parts.inventory
        if known is not None:
            known = replace(known, versions=link.versions, missing=link.missing)
            if Due.DOMAINS in due:
                known = replace(known, domains=await self._libvirt.domains())
                self._listed = link
            self._board.put(replace(self._board.parts, inventory=known))
            if Due.HOST not in due:
                return
        host = await self._libvirt.capabilities()
        offers = await self._libvirt.domain_capabilities()
        # Listed after the slow ones, so that the first inventory is as fresh as can be.
        domains = known.domains if known else await self._libvirt.domains()
        self._listed = link
        found = Inventory(link.versions, host, offers, domains, link.missing)
        self._board.put(replace(self._board.parts, inventory=found))

    async def _failed(self, error: LibvirtError) -> None:
        """Try again soon; the condition shows it from the second time, as a loss comes this way."""
        log.warning("reading_libvirt_failed", error=str(error), failures=self._failures + 1)
        if self._failures:
            self._problem = str(error)
            self._set_condition()
        wait = _RETRY.wait(self._failures)
        self._failures += 1
        await asyncio.sleep(wait)
        self._wake.set()

    async def _follow_units(self) -> None:
        parts: Parts | None = None
        while True:
            parts = await self._board.changed(parts) if parts else self._board.parts
            self._set_condition()

    def _set_condition(self) -> None:
        yes, no = ConditionStatus.TRUE, ConditionStatus.FALSE
        match self._link:
            case None:
                return
            case Connected() if self._problem:
                reason = LibvirtConnectionReason.PROCESS_FAILED
                self._board.put_condition(_CONDITION, no, reason, self._problem)
            case Connected() if self._listed is not self._link:
                return
            case Connected(missing=missing):
                inventory = self._board.parts.inventory
                message = _remarks(missing, inventory.domains if inventory else ())
                reason = LibvirtConnectionReason.CONNECTED
                self._board.put_condition(_CONDITION, yes, reason, message)
            case Disconnected(reason=why):
                if stopped := self._stopped_unit():
                    reason, why = LibvirtConnectionReason.SERVICE_NOT_RUNNING, stopped
                else:
                    reason = LibvirtConnectionReason.CONNECT_FAILED
                self._board.put_condition(_CONDITION, no, reason, why)

    def _stopped_unit(self) -> str | None:
        """What systemd reports of libvirt's unit, if it does not run."""
        for unit in self._units:
            verdict = self._board.parts.conditions.get(unit)
            if verdict is not None and verdict.status == ConditionStatus.FALSE:
                return verdict.message or f"{unit} does not run"
        return None


def _log_change(before: Connected | Disconnected | None, now: Connected | Disconnected) -> None:
    """Log a loss once, however many attempts to connect follow it, and the return once."""
    match now:
        case Connected() if not isinstance(before, Connected):
            log.info("libvirt_connected", version=now.versions.libvirt)
        case Disconnected() if not isinstance(before, Disconnected):
            log.warning("libvirt_disconnected", reason=now.reason)
        case _:
            return


def _remarks(missing: Sequence[str], domains: Sequence[Domain]) -> str:
    """What libvirt does not offer, and the domains that were not read completely; "" for none."""
    parts = [f"this driver does not offer: {', '.join(missing)}"] if missing else []
    odd = [domain for domain in domains if domain.problem is not None]
    if odd:
        shown = "; ".join(f"{d.name}: {d.problem}"[:_TEXT] for d in odd[:_SHOWN_PROBLEMS])
        more = f"; and {len(odd) - _SHOWN_PROBLEMS} more" if len(odd) > _SHOWN_PROBLEMS else ""
        parts.append(f"not read completely: {shown}{more}")
    return ". ".join(parts)
