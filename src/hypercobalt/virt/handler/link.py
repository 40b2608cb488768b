"""The way to one launcher: finds its socket, keeps one connection, and knows when it has ended.

Nothing is polled. The socket's directory is watched until the socket appears, the launcher reports
each change of its domain, and a pidfd shows the end of its process. A launcher that sends garbage,
hangs or floods costs its own VMI alone: attempts to reach it become rare, and its reports are taken
at a bounded rate, the newest first.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt.adapters.host.entries import follow_directory
from hypercobalt.logs import get_logger
from hypercobalt.virt.handler.model import Contact, LauncherView
from hypercobalt.virt.handler.processes import HeldProcess, held_process
from hypercobalt.virt.handler.sockets import CheckPeer, command_socket, socket_directory
from hypercobalt.virt.wire.client import LauncherConnection, LauncherError, connect
from hypercobalt.vmi.paths import COMMAND_SOCKET

log = get_logger(__name__)

_SOON: Final = timedelta(seconds=1)
_SELDOM: Final = timedelta(seconds=30)
_FIRST_REPORT: Final = 5.0  # seconds
_ITS_END: Final = 1.0  # seconds from the end of a connection to that of its process
_PACE: Final = 0.2  # seconds between two reports that are taken, beyond a few
_AT_ONCE: Final = 20  # reports in a row that are taken without a pause
_GATHER: Final = 0.02  # seconds
_CALM: Final = 10.0  # seconds after which they are counted anew


@dataclass(frozen=True, slots=True)
class LauncherPlaces:
    """Where launchers are found, and which processes they may be.

    Args:
        pods: directory of all pods.
        user: id of the user that launchers have.
        check: tells a launcher from a process of another pod.
    """

    pods: Path
    user: int
    check: CheckPeer


class LauncherLink:
    """The way to the launcher of one pod.

    Args:
        pod_uid: of the pod.
        places: of all launchers.
        changed: called when something new is known.
        since: when the launcher began to be looked for.

    Attributes:
        view: what is known.
        connection: the present one; None while there is none.
        process: id of the launcher's process; 0 before it is known.
    """

    def __init__(
        self, pod_uid: str, places: LauncherPlaces, changed: Callable[[], None], since: datetime
    ) -> None:
        self._uid, self._places, self._changed = pod_uid, places, changed
        self.view = LauncherView(since=since)
        self.connection: LauncherConnection | None = None
        self.process = 0
        self._held: HeldProcess | None = None
        self._met = False  # a connection was accepted
        self._wait = _SOON

    async def run(self) -> None:
        """Keep the connection until the launcher has ended."""
        while self.view.contact is not Contact.ENDED:
            try:
                with socket_directory(self._places.pods, self._uid) as directory:
                    await self._in(directory)
            except OSError as exc:
                self._show(Contact.UNKNOWN, f"directory of the pod's socket: {exc.strerror or exc}")
                await self._pause()
            except Exception as exc:  # a bug ends no other launcher's service
                log.exception("launcher_link_broke", pod=self._uid)
                self._show(Contact.UNKNOWN, f"fault of virt-handler: {exc!r}")
                await self._pause()

    async def _in(self, directory: int) -> None:
        """Connect to the socket in its directory, as often as it takes."""
        while self.view.contact is not Contact.ENDED:
            try:
                with command_socket(directory) as path:
                    await self._meet(path)
            except FileNotFoundError:
                if self._met:
                    self._show(Contact.ENDED, "the launcher has removed its socket")
                    return
                self._show(Contact.ABSENT, "the launcher has no socket yet")
                await _appeared(directory)
            except LauncherError as exc:
                if isinstance(exc.__cause__, ConnectionRefusedError):
                    self._show(Contact.ENDED, "nobody listens at the launcher's socket any more")
                    return
                self._show(Contact.UNKNOWN, str(exc))
                await self._pause()

    async def _meet(self, path: Path) -> None:
        """Connect once, and follow the launcher until the connection ends.

        Raises:
            LauncherError: it cannot be reached, or is not what it should be.
        """
        async with connect(path, uid=self._places.user) as connection:
            with held_process(connection.peer.pid) as process:
                await self._with(connection, process)

    async def _with(self, connection: LauncherConnection, process: HeldProcess) -> None:
        try:
            problem = self._places.check(self._uid, connection.peer)
            if problem:
                raise LauncherError(problem)
            if not process.lives:  # what was read of one that still lives is of that process
                raise LauncherError(f"process {process.number} of the launcher has ended")
            await self._follow(connection, process)
            reason = connection.closed.result() if connection.closed.done() else ""
            if not await process.ends(_ITS_END):
                raise LauncherError(reason or "the connection ended")
            self._show(Contact.ENDED, "the launcher's process has ended")
        finally:
            self.connection = self._held = None

    @contextmanager
    def process_directory(self) -> Generator[Path]:
        """A path of the directory in /proc of the launcher that is connected.

        Raises:
            LauncherError: none is.
        """
        if self._held is None:
            raise LauncherError("the connection ended")
        with self._held.directory() as path:
            yield path

    async def _follow(self, connection: LauncherConnection, process: HeldProcess) -> None:
        try:
            async with asyncio.timeout(_FIRST_REPORT):
                report = await connection.newest()
        except TimeoutError as exc:
            raise LauncherError(f"no report within {_FIRST_REPORT:g} s") from exc
        loop = asyncio.get_running_loop()
        taken, since = 0, loop.time()
        while report is not None:
            self._met = True
            self.connection, self._held, self.process = connection, process, process.number
            self.view = replace(self.view, contact=Contact.CONNECTED, report=report, trouble="")
            self._changed()
            taken += 1
            if loop.time() - since > _CALM:
                taken, since, self._wait = 1, loop.time(), _SOON
            if taken > _AT_ONCE:
                await asyncio.sleep(_PACE)  # a flood of reports; the newest one counts
            report = await connection.newest()

    async def _pause(self) -> None:
        await asyncio.sleep(self._wait.total_seconds())
        self._wait = min(self._wait * 2, _SELDOM)

    def _show(self, contact: Contact, trouble: str) -> None:
        shown = replace(self.view, contact=contact, trouble=trouble)
        if shown != self.view:
            log.info("launcher_contact", pod=self._uid, contact=str(contact), reason=trouble)
            self.view = shown
            self._changed()


async def _appeared(directory: int) -> None:
    """Wait until the socket may be there; a pod that makes other files wakes nobody often."""
    with follow_directory(directory) as changed:
        if not _is_there(directory):
            await changed(_SELDOM)
    await asyncio.sleep(_GATHER)


def _is_there(directory: int) -> bool:
    try:
        os.stat(COMMAND_SOCKET, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True
