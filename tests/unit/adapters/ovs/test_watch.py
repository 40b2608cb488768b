"""Which changes of the database come at once, and which together."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from tests.unit.adapters.ovs.scripted import SCHEMA, Serve, served

from hypercobalt.adapters.ovs.port import SwitchError
from hypercobalt.adapters.ovs.rows import Database
from hypercobalt.adapters.ovs.watch import WatchPace, watch

FIRST, SECOND = (f"{number}c2f1f3e-0e0a-4a93-8a4e-1d6c3a6f6f10" for number in (1, 2))
BOUND = 5.0  # seconds
Reports = AsyncGenerator[Database | SwitchError]


def notified(row: str, kind: str, columns: object) -> bytes:
    updates = {"Bridge": {row: {kind: columns}}}
    return json.dumps({"id": None, "method": "update2", "params": ["m", updates]}).encode()


def serving(changes: asyncio.Queue[bytes]) -> Serve:
    """A server with one bridge, and then these changes."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(3):
            call = json.loads(await reader.read(65536))
            answer: object = {"Bridge": {FIRST: {"initial": {"name": "br-int"}}}}
            result = SCHEMA if call["method"] == "get_schema" else answer
            error = "unknown method" if call["method"] == "monitor_cond_since" else None
            reply = {"id": call["id"], "result": None if error else result, "error": error}
            writer.write(json.dumps(reply).encode())
        while True:
            writer.write(await changes.get())

    return serve


async def reported(reports: Reports) -> dict[str, str | None]:
    """Datapaths of bridges in the next report."""
    found = await asyncio.wait_for(anext(reports), BOUND)
    assert isinstance(found, Database), found
    return {one.name: one.datapath_id for one in found.bridges.values()}


@asynccontextmanager
async def watching(
    folder: Path, together: float
) -> AsyncGenerator[tuple[Reports, asyncio.Queue[bytes]]]:
    """Reports of a server with one bridge, and where its changes are put."""
    changes: asyncio.Queue[bytes] = asyncio.Queue()
    async with (
        served(folder / "db.sock", serving(changes)) as socket,
        aclosing(watch(socket, WatchPace(together=together))) as reports,
    ):
        assert await reported(reports) == {"br-int": None}
        yield reports, changes


async def test_a_row_that_changes_is_not_held_up_for_what_may_come_along(tmp_path: Path) -> None:
    async with watching(tmp_path, 600.0) as (reports, changes):
        changes.put_nowait(notified(FIRST, "modify", {"datapath_id": "1"}))
        assert await reported(reports) == {"br-int": "1"}


async def test_a_row_that_is_new_comes_with_what_fills_it(tmp_path: Path) -> None:
    async with watching(tmp_path, 0.5) as (reports, changes):
        changes.put_nowait(notified(SECOND, "insert", {"name": "br-ex"}))
        following = asyncio.create_task(reported(reports))
        await asyncio.sleep(0.05)  # of ovs-vswitchd, until it has made the bridge
        changes.put_nowait(notified(SECOND, "modify", {"datapath_id": "2"}))
        assert await following == {"br-int": None, "br-ex": "2"}
