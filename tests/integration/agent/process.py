"""An agent's process, and the lines that it logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping

SECONDS = 40.0

Process = asyncio.subprocess.Process


@contextlib.asynccontextmanager
async def started(*command: str, env: Mapping[str, str] | None = None) -> AsyncIterator[Process]:
    process = await asyncio.create_subprocess_exec(
        *command, stderr=asyncio.subprocess.PIPE, env={**os.environ, **(env or {})}
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def lines_until(process: Process, event: str) -> list[dict[str, object]]:
    """The lines up to the first with this event."""
    assert process.stderr is not None
    found: list[dict[str, object]] = []
    try:
        async with asyncio.timeout(SECONDS):
            while not found or found[-1]["event"] != event:
                line = await process.stderr.readline()
                assert line, f"ended after {found}"
                found.append(json.loads(line))
    except TimeoutError:
        raise AssertionError(f"no {event} within {SECONDS:g} s; logged: {found}") from None
    return found


async def drained(process: Process) -> None:
    """Read what the agent logs, so that it is never held up; a test that fails shows it."""
    assert process.stderr is not None
    while line := await process.stderr.readline():
        sys.stderr.write(line.decode())


async def stopped(process: Process) -> int:
    """Terminate the process; return its exit code."""
    process.terminate()
    return await asyncio.wait_for(process.wait(), SECONDS)
