"""A capture whose reader is interrupted, and one whose agent is killed."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.integration.node_agent.host.conftest import certificates, server

from hypercobalt.apiserver.server import Server

__all__ = ["certificates", "server"]

pytestmark = pytest.mark.asyncio(loop_scope="module")

SECONDS = 30.0
Process = asyncio.subprocess.Process
MODULE = "tests.integration.agent.capturing_agent"


@contextlib.asynccontextmanager
async def started(role: str, kubeconfig: Path) -> AsyncGenerator[Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", MODULE, role, str(kubeconfig), stdout=pipe, stderr=pipe
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def line(process: Process) -> str:
    assert process.stdout is not None
    found = await asyncio.wait_for(process.stdout.readline(), SECONDS)
    return found.decode().strip()


async def ended(process: Process) -> tuple[int, str]:
    """The exit code, and what it has complained about."""
    _, errors = await asyncio.wait_for(process.communicate(), SECONDS)
    assert process.returncode is not None
    return process.returncode, errors.decode()


async def test_ctrl_c_ends_the_capture_on_the_host(server: Server) -> None:
    async with (
        started("agent", server.kubeconfig) as agent,
        contextlib.AsyncExitStack() as stack,
    ):
        assert await line(agent) == "serving"
        person = await stack.enter_async_context(started("person", server.kubeconfig))
        assert await line(person) == "packet"
        person.send_signal(signal.SIGINT)
        assert await ended(person) == (130, "\ncobalt capture: interrupted\n")
        assert await line(agent) == "closed"


async def test_reader_notices_that_the_agent_was_killed(server: Server) -> None:
    async with (
        started("agent", server.kubeconfig) as agent,
        contextlib.AsyncExitStack() as stack,
    ):
        assert await line(agent) == "serving"
        person = await stack.enter_async_context(started("person", server.kubeconfig))
        assert await line(person) == "packet"
        agent.kill()
        code, errors = await ended(person)
        assert (code, "the answer was cut off" in errors) == (1, True), errors
