"""The supervisor of a lab: starts the processes of the machine that die, until `lab down`.

python -m hypercobalt.lab.supervision DIRECTORY

Each pass looks at what runs, decides (`rules`) and acts; a death ends the wait for the next pass.
It acts only while no command changes the lab, so neither undoes what the other does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from hypercobalt import logs
from hypercobalt.errors import HypercobaltError
from hypercobalt.lab import processes
from hypercobalt.lab import state as records
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.holds import Holds
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.locks import restarting
from hypercobalt.lab.state import Layout
from hypercobalt.lab.supervision import ends, journal, rules
from hypercobalt.lab.supervision.starters import NEEDS, Start, starters

_RESYNC: Final = timedelta(seconds=3)  # finds processes that commands have started meanwhile
_BUSY: Final = timedelta(milliseconds=500)  # until the next look while a command changes the lab
_START: Final = timedelta(seconds=90)  # of one process and what it serves

_log = logs.get_logger(__name__)


class Watch:
    """Processes by role, each with a pidfd by which its end is noticed and described."""

    def __init__(self) -> None:
        self._fds: dict[str, int] = {}
        self._pids: dict[str, int] = {}
        self._ended: dict[str, int] = {}  # pidfds of dead processes, until it is known how
        self.changed = asyncio.Event()

    def look(
        self, oldest: processes.Oldest, wanted: Sequence[str]
    ) -> tuple[frozenset[str], dict[str, str]]:
        """Look at the processes of a lab once.

        Returns:
            The roles that run, of those wanted or watched, and how those ended that were watched,
            by role, once it is known.
        """
        found = oldest.running({*wanted, *self._pids})
        running = {role: process.pid for role, process in found.items()}
        ended: dict[str, str] = {}
        for role, pid in tuple(self._pids.items()):
            if running.get(role) != pid:
                del self._pids[role]
                self._bury(role, self._fds.pop(role))
        for role, fd in tuple(self._ended.items()):
            if (how := ends.how(fd)) is not None:
                ended[role] = how
                os.close(self._ended.pop(role))
        for role in wanted:
            if role in running and role not in self._pids:
                self._open(role, running[role])
        return frozenset(running), ended

    def _open(self, role: str, pid: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            fd = os.pidfd_open(pid)
            self._fds[role], self._pids[role] = fd, pid
            asyncio.get_running_loop().add_reader(fd, self._died, fd)

    def _bury(self, role: str, fd: int) -> None:
        asyncio.get_running_loop().remove_reader(fd)
        if role in self._ended:
            os.close(self._ended[role])
        self._ended[role] = fd

    def _died(self, fd: int) -> None:
        asyncio.get_running_loop().remove_reader(fd)
        self.changed.set()

    async def wait(self, longest: timedelta) -> None:
        """Wait until a process ends, for a bounded time."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(longest.total_seconds()):
                await self.changed.wait()
        self.changed.clear()


async def supervise(data: Path) -> None:
    """Start what dies until the lab is gone.

    Raises:
        LabError: there is no lab, or its state cannot be read.
    """
    layout = Layout.at(data)
    lab_id = Lab.find(data).state.id
    watch, holds, record = Watch(), Holds(layout.holds), journal.load(layout)
    oldest = processes.Oldest(lab_id)
    while (state := records.load(layout)) is not None and state.id == lab_id:
        how_to = starters(Lab.find(data))
        roles = tuple(how_to)
        running, ended = watch.look(oldest, roles)
        facts = rules.SupervisionFacts(roles, running, holds.held(), ended, NEEDS)
        plan = rules.decide(facts, record, datetime.now(UTC))
        _report(layout, record, plan.record)
        record = plan.record
        if plan.start:
            with restarting(layout) as is_alone:
                # A command may have stopped or started it since.
                role = plan.start[0]
                if is_alone and role not in holds.held() and oldest.find(role) is None:
                    record = await _start(layout, record, role, how_to)
            await watch.wait(timedelta() if is_alone else _BUSY)
        else:
            await watch.wait(rules.wake(record, datetime.now(UTC), _RESYNC))


def _report(layout: Layout, before: rules.RestartRecord, after: rules.RestartRecord) -> None:
    if before == after:
        return
    for role, one in after.items():
        known = before.get(role)
        if one.due is not None and (known is None or known.due is None):
            _log.warning("process_died", role=role, how=one.how, restarts=one.times, due=one.due)
    _save(layout, after)


async def _start(
    layout: Layout, record: rules.RestartRecord, role: str, how_to: dict[str, Start]
) -> rules.RestartRecord:
    known = record[role]
    _log.info("restarting_process", role=role, restarts=known.times + 1)
    try:
        async with asyncio.timeout(_START.total_seconds()):
            await how_to[role]()
    except (HypercobaltError, OSError) as error:  # a time-out is an OSError
        why = str(error) or f"not started within {_START}"
        after = rules.failed(known, why, datetime.now(UTC))
        _log.warning("restart_failed", role=role, error=why, due=after.due)
    else:
        after = rules.started(known, datetime.now(UTC))
        _log.info("process_restarted", role=role, restarts=after.times)
    record = {**record, role: after}
    _save(layout, record)
    return record


def _save(layout: Layout, record: rules.RestartRecord) -> None:
    try:
        journal.save(layout, record)
    except LabError as error:  # a full disk does not end supervision
        _log.warning("restarts_not_written", error=str(error))


if __name__ == "__main__":
    logs.configure()
    asyncio.run(supervise(Path(sys.argv[1])))
