"""One launcher: follows its domain, answers its handler, and ends at the right time.

Nothing is polled. libvirt's events make the domain be read again, and a timer stands for each
deadline of `ending`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from typing import Final

from hypercobalt.adapters.disks.port import Disks
from hypercobalt.adapters.libvirt.events import Disconnected, DomainEvent, EventKind
from hypercobalt.adapters.libvirt.port import LibvirtError, LibvirtSession
from hypercobalt.adapters.libvirt.vocabulary import Crashed, Lifecycle
from hypercobalt.logs import get_logger
from hypercobalt.virt.launcher.emulator import EmulatorWatch
from hypercobalt.virt.launcher.ending import (
    UNNOTICED,
    EndAct,
    EndFacts,
    after_reading,
    end_step,
)
from hypercobalt.virt.launcher.guest import Guest
from hypercobalt.virt.launcher.settings import LauncherSettings
from hypercobalt.virt.wire import messages
from hypercobalt.virt.wire.messages import AnyCall, DomainReport
from hypercobalt.virt.wire.server import LauncherServer
from hypercobalt.vmi.phases import LifeCycle

log = get_logger(__name__)

_READ_AGAIN: Final = 2.0  # seconds after a reading that failed while libvirt is connected
_DEAD: Final = frozenset({None, LifeCycle.SHUTOFF, LifeCycle.CRASHED})


class Launcher:
    """See the module.

    Args:
        settings: of this launcher.
        session: the pod's libvirtd.
        disks: makes disks.
    """

    def __init__(self, settings: LauncherSettings, session: LibvirtSession, disks: Disks) -> None:
        self._settings, self._session = settings, session
        self._guest = Guest(settings, session, disks)
        self._server = LauncherServer(self._answer, peers=settings.handlers)
        self._stale, self._known = asyncio.Event(), asyncio.Event()
        self._changed = asyncio.Event()
        self._now = _steady_clock()
        self._end = EndFacts(self._now())
        self._reading = asyncio.Lock()
        self._emulator = EmulatorWatch(Path(settings.paths.runtime), self._vanished)

    async def run(self) -> int:
        """Serve until the launcher is over; return the exit code."""
        ending = asyncio.create_task(self._wait_for_the_end(), name="end")
        ready = asyncio.create_task(self._known.wait(), name="ready")
        tasks: set[asyncio.Task[object]] = {
            ending,
            ready,
            asyncio.create_task(self._follow(), name="libvirt-events"),
            asyncio.create_task(self._read(), name="domain"),
        }
        try:
            await asyncio.wait({ready, ending}, return_when=asyncio.FIRST_COMPLETED)
            async with self._server.serve(Path(self._settings.paths.command_socket)):
                log.info("launcher_ready", vmi=self._settings.name)
                return await ending
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._emulator.close()
            self._guest.close()

    def signalled(self) -> None:
        """Take note that the pod must end: virt-handler ends the guest, by the deadline."""
        if self._end.marked is None:
            self._guest.signalled = datetime.now(UTC)
            log.info("termination_signalled", grace_seconds=self._settings.grace_seconds)
            # A start may be under way of which no reading has shown anything yet.
            told = replace(self._after(alive=self._end.alive), marked=self._now())
            self._learn(told)
            self._stale.set()

    async def _answer(self, call: AnyCall) -> DomainReport | None:
        if isinstance(call, messages.Ping):
            return None
        await self._do(call)
        return await self._report()

    async def _do(self, call: AnyCall) -> None:
        guest, session = self._guest, self._session
        match call:
            case messages.Sync():
                await guest.sync(call)
            case messages.Pause():
                await guest.to_domain(session.pause)
            case messages.Unpause():
                await guest.to_domain(session.resume)
            case messages.Reset():
                await guest.to_domain(session.reset)
            case messages.SoftReboot():
                await guest.to_domain(session.reboot)
            case messages.Shutdown():
                await guest.shut_down()
            case messages.Kill():
                await guest.kill()
            case messages.Delete():
                await guest.delete()
            case _:
                pass

    async def _follow(self) -> None:
        """Have the domain read again after each event."""
        async for event in self._session.events():
            if isinstance(event, DomainEvent) and _is_panic(event):
                self._guest.panicked = True  # libvirt has it for a moment only
            if not isinstance(event, Disconnected):
                self._stale.set()

    async def _read(self) -> None:
        while True:
            await self._stale.wait()
            self._stale.clear()
            try:
                report = await self._report()
            except LibvirtError as exc:
                log.warning("domain_not_read", error=str(exc))
            except Exception:
                log.exception("reading_broke")
            else:
                if report.state in _DEAD or not self._emulator.gone:
                    continue
            # Each event makes it stale as well; this is for a call or an event that was lost.
            await self._wait(self._stale, timedelta(seconds=_READ_AGAIN))
            self._stale.set()

    async def _report(self) -> DomainReport:
        """Read the domain, and report it; in order, so that no older state comes last."""
        async with self._reading:
            report = await self._guest.report()
            self._server.report(report)
            self._learn(self._after(alive=report.state not in _DEAD))
            if self._end.alive:
                self._emulator.follow(self._guest.name)
            self._known.set()
            return report

    def _after(self, *, alive: bool) -> EndFacts:
        """What the end depends on now."""
        appeared, recorded = self._guest.has_run, self._guest.recorded
        return after_reading(
            self._end, self._now(), appeared=appeared, alive=alive, recorded=recorded
        )

    def _vanished(self) -> None:
        """Take note that QEMU's process has ended."""
        self._learn(replace(self._end, vanished=self._now()))
        self._stale.set()

    def _learn(self, changed: EndFacts) -> None:
        if changed != self._end:
            self._end = changed
            self._changed.set()

    async def _wait_for_the_end(self) -> int:
        grace = timedelta(seconds=self._settings.grace_seconds)
        timeout = timedelta(seconds=self._settings.qemu_timeout_seconds)
        while True:
            self._changed.clear()
            step = end_step(self._end, self._now(), grace=grace, qemu_timeout=timeout)
            match step.act:
                case EndAct.WAIT:
                    await self._wait(self._changed, step.look_again)
                case EndAct.KILL:
                    await self._kill()
                case EndAct.EXIT:
                    return 0
                case EndAct.ABORT:
                    if self._end.vanished:
                        log.error("end_not_noticed", seconds=UNNOTICED.total_seconds())
                    else:
                        log.error("no_domain_appeared", seconds=timeout.total_seconds())
                    return 1

    @staticmethod
    async def _wait(event: asyncio.Event, longest: timedelta | None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(longest.total_seconds() if longest else None):
                await event.wait()

    async def _kill(self) -> None:
        log.warning("grace_period_over", seconds=self._settings.grace_seconds)
        self._learn(replace(self._end, killed=self._now()))
        try:
            await self._guest.kill()
        except LibvirtError as exc:
            log.warning("domain_not_killed", error=str(exc))


def _is_panic(event: DomainEvent) -> bool:
    crashed = event.kind is EventKind.LIFECYCLE and event.type == Lifecycle.CRASHED
    return crashed and event.detail == Crashed.PANICKED


def _steady_clock() -> Callable[[], datetime]:
    """A clock for deadlines: a step of the machine's clock must end no guest early."""
    began, start = datetime.now(UTC), monotonic()
    return lambda: began + timedelta(seconds=monotonic() - start)
