"""The server of the pages, and clients that do not play along."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from hypercobalt.runtime import Address, Kube
from hypercobalt.runtime.endpoints import Endpoints
from hypercobalt.runtime.guard import guard


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_silent_client_does_not_delay_the_end(kube: Kube, scheme: str) -> None:
    before = guard(kube) if scheme == "https" else None
    pages = Endpoints(Address(port=0), registry=None, healthy={}, ready=None, guard=before)
    port = (await pages.start()).port
    _, silent = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with httpx2.AsyncClient(verify=False) as client:  # self-signed
            answer = await client.get(f"{scheme}://127.0.0.1:{port}/healthz")
        assert answer.status_code == (401 if before else 200)  # so the silent one was accepted
        async with asyncio.timeout(4):
            await pages.stop()
    finally:
        silent.close()
