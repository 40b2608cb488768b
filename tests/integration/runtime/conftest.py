"""A scripted server and a client for it."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.integration.runtime.scripted import ScriptedServer

from hypercobalt.runtime import Backoff, Connection, Kube, Limits, Metrics

sys.path.insert(0, str(Path(__file__).parents[3]))  # examples/ is not part of the package

QUICK = Backoff(base=timedelta(milliseconds=2), cap=timedelta(milliseconds=20))


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    made = ScriptedServer()
    await made.start()
    yield made
    await made.stop()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
async def kube(server: ScriptedServer, metrics: Metrics) -> AsyncIterator[Kube]:
    limits = Limits(
        deadline=timedelta(seconds=3), attempt=timedelta(milliseconds=300), backoff=QUICK
    )
    async with Kube(Connection(server.url), limits=limits, metrics=metrics) as made:
        yield made
