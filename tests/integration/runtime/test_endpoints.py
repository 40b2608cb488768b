"""The server of the pages, and clients that do not play along."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from hypercobalt.api.address import Address
from hypercobalt.runtime import Kube
from hypercobalt.runtime.endpoints import Endpoints
from hypercobalt.runtime.guard import METRICS, guard
from hypercobalt.runtime.routes import Answer, Request, Route


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_silent_client_does_not_delay_the_end(kube: Kube, scheme: str) -> None:
    before = guard(kube, METRICS) if scheme == "https" else None
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


async def echo(request: Request) -> Answer:
    return Answer(200, request.body or b"nothing")


async def never(_: Request) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError


async def sent(port: int, head: str, body: bytes = b"") -> bytes:
    """What the server answers to a request, until it closes the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"{head}\r\n\r\n".encode() + body)
    async with asyncio.timeout(5):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("head", "body", "line"),
    [
        ("POST /echo HTTP/1.1\r\nContent-Length: 8", b"8 bytes.", b"200 OK"),
        ("POST /echo HTTP/1.1", b"", b"200 OK"),
        ("POST /echo HTTP/1.1\r\nContent-Length: 9", b"9 bytes..", b"413 "),
        ("POST /echo HTTP/1.1\r\nContent-Length: 60000", b"x" * 60_000, b"413 "),
        ("POST /echo HTTP/1.1\r\nContent-Length: all", b"", b"400 Bad Request"),
        ("POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked", b"0\r\n\r\n", b"411 Length Required"),
        ("POST /never HTTP/1.1", b"", b"504 Gateway Timeout"),
        ("GET /echo HTTP/1.1", b"", b"405 Method Not Allowed"),
        ("POST /other HTTP/1.1\r\nContent-Length: 60000", b"x" * 60_000, b"404 Not Found"),
        ("HEAD /healthz HTTP/1.1", b"", b"200 OK"),
        ("POST /healthz HTTP/1.1", b"", b"405 Method Not Allowed"),
    ],
)
async def test_a_body_is_bounded_and_so_is_the_time_for_an_answer(
    head: str, body: bytes, line: bytes
) -> None:
    routes = (
        Route("/echo", echo, method="POST", most=8),
        Route("/never", never, method="POST", seconds=0.05),
    )
    pages = Endpoints(Address(port=0), healthy={}, routes=routes)
    port = (await pages.start()).port
    try:
        answer = await sent(port, head, body)
    finally:
        await pages.stop()
    assert answer.startswith(b"HTTP/1.1 " + line)
    if line == b"200 OK" and head.startswith("POST"):
        assert answer.endswith(b"\r\n\r\n" + (body or b"nothing"))
