"""A server in memory and a clock that follows the loop."""

from __future__ import annotations

import asyncio

import pytest
from tests.integration.runtime.scripted import ScriptedServer

from hypercobalt.runtime import FakeClock, Metrics


@pytest.fixture
async def server() -> ScriptedServer:
    return ScriptedServer()


@pytest.fixture
async def clock() -> FakeClock:
    return FakeClock(source=asyncio.get_running_loop().time)


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()
