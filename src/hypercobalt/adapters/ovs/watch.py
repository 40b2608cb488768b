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
class Pace:
    """How long things may take, in seconds.

    Args:
        deadline: for each answer.
        echo: between echoes.
        together: changes within this come as one.
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


async def watch(socket: Path, pace: Pace | None = None) -> AsyncGenerator[Database | SwitchError]:
    """Give the database after each change, and why there is none; without end.

    Args:
        socket: of ovsdb-server.
        pace: see there.
    """
    pace = pace or Pace()
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
                snapshots = Snapshots(session.tables)
                while not session.closed.done():
                    session.changed.clear()
                    snapshot = snapshots.take()
                    attempt = 0
                    yield snapshot
                    await _change(session, pace.together)
                raise again(session.closed.result())
        except SwitchError as exc:
            yield again(exc)
        # Nothing announces that a server is back: only another attempt to connect shows it.
        await asyncio.sleep(pace.wait(attempt))
        attempt += 1


async def _change(session: Session, together: float) -> None:
    """Wait for a change and those that come along with it, or for the session's end."""
    await session.changed.wait()
    await asyncio.wait({session.closed}, timeout=together)
