"""Fixtures of tests that run controllers on an embedded API server and stop them anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from hypercobalt.apiserver.server import serve
from tests.integration.apiserver.conftest import fresh
from tests.sockets import left_to_the_collector


@asynccontextmanager
async def embedded(directory: Path, certificates: Path, *kinds: object) -> AsyncIterator[Path]:
    """Serve an API with definitions beside our own; give its kubeconfig."""
    options = fresh(directory, certificates)
    added = (msgspec.json.encode(kind) for kind in kinds)
    async with serve(replace(options, manifests=(*options.manifests, *added))) as server:
        yield server.kubeconfig


@pytest.fixture(autouse=True)
def abandoned_sockets() -> Generator[None]:
    """Every test stops a controller in the middle of its requests."""
    with left_to_the_collector():
        yield


@pytest.fixture(autouse=True)
def no_crashed_pass(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    """Fail a test in which a pass ended in an unexpected error."""
    yield
    lines = (record.getMessage() for record in caplog.get_records("call"))
    assert [line for line in lines if "reconcile_crashed" in line] == []
