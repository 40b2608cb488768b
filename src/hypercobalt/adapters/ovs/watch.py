"""Follows Open vSwitch's database: connects, reports each change, and connects again.

Source: RFC 7047; the deadlines are those of `port`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path

from hypercobalt.adapters.ovs import database
from hypercobalt.adapters.ovs.database import Snapshots
from hypercobalt.adapters.ovs.jsonrpc import again
from hypercobalt.adapters.ovs.ovsdb import Session, monitored
from hypercobalt.adapters.ovs.port import DEADLINE, ECHO, RECONNECT, SwitchError
from hypercobalt.adapters.ovs.remote import Remote
from hypercobalt.adapters.ovs.rows import Database


@dataclass(frozen=True, slots=True)
class WatchPace:
    """How long things may take, in seconds.

    Args:
        deadline: for each answer.
        echo: between echoes.
        together: changes within this come as one, but for the first after a quiet time that leaves
            all rows there: a link or an error.
        first_wait: before the second attempt to connect; it doubles with each one.
        longest_wait: bound of that.
    """

    deadline: float = DEADLINE.total_seconds()
    echo: float = ECHO.total_seconds()
    together: float = 0.05
    first_wait: float = 0.1
    longest_wait: float = RECONNECT.total_seconds()

    def wait(self, attempt: int) -> float:
        """The wait after a number of failed attempts, spread over its upper quarter."""
        doubled = min(self.first_wait * 2.0 ** min(attempt, 16), self.longest_wait)
        return doubled * random.uniform(0.75, 1)  # noqa: S311 - no secret


async def watch(
    socket: Path, pace: WatchPace | None = None
) -> AsyncGenerator[Database | SwitchError]:
    """Yield the database after each change, or why it cannot be read; never ends.

    Args:
        socket: of ovsdb-server.
        pace: see there.
    """
    pace = pace or WatchPace()
    remote = Remote("unix", str(socket))
    attempt = 0
    while True:
        try:
            async with monitored(
                remote,
                database.NAME,
                database.WANTED,
                deadline=pace.deadline,
                echo_period=pace.echo,
            ) as session:
                changes = _Changes(session, pace.together)
                while not session.closed.done():
                    snapshot = await changes.taken()
                    attempt = 0
                    yield snapshot
                    await session.changed.wait()
                raise again(session.closed.result())
        except SwitchError as exc:
            yield again(exc)
        # Nothing announces that a server is back: only another attempt to connect shows it.
        await asyncio.sleep(pace.wait(attempt))
        attempt += 1


class _Changes:
    """Snapshots of a session's tables, with the changes of one moment in one of them.

    ovs-vswitchd fills a row that is new a moment later: it is no news until then. A link that is
    lost is, and shows at once after a quiet time, as nothing comes along with it.

    Args:
        session: with the tables.
        together: seconds within which changes come as one.
    """

    def __init__(self, session: Session, together: float) -> None:
        self._session, self._together = session, together
        self._snapshots = Snapshots(session.tables)
        self._last: Database | None = None
        self._taken_at = float("-inf")  # by the loop's clock

    async def taken(self) -> Database:
        """The database now, or once what comes along with its last change is there too."""
        now = asyncio.get_running_loop().time()
        before, is_quiet = self._last, now - self._taken_at >= self._together
        if before is None:
            return self._take()
        if is_quiet and _rows(found := self._take()) == _rows(before):
            self._taken_at = now
            return found
        await asyncio.wait({self._session.closed}, timeout=self._together)
        self._taken_at = now + self._together
        return self._take()

    def _take(self) -> Database:
        self._session.changed.clear()
        self._last = self._snapshots.take()
        return self._last


def _rows(database: Database) -> tuple[object, ...]:
    return database.bridges.keys(), database.ports.keys(), database.interfaces.keys()
