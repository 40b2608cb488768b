"""An agent's process, and the lines that it logs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping

SECONDS = 20.0

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
    async with asyncio.timeout(SECONDS):
        while not found or found[-1]["event"] != event:
            line = await process.stderr.readline()
            assert line, f"ended after {found}"
            found.append(json.loads(line))
    return found


async def stopped(process: Process) -> int:
    """Ask the process to stop; gives its exit code."""
    process.terminate()
    return await asyncio.wait_for(process.wait(), SECONDS)
