"""Clients that are slow, vanish, never read or speak no HTTP: other clients are not affected."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl

import pytest

from hypercobalt.apiserver import watching
from hypercobalt.apiserver.server import ServerOptions, serve

from .conftest import Client
from .connections import connection, ended, works
from .objects import CONFIG_MAPS

HEAD = b"Host: x\r\nAuthorization: Bearer secret-admin\r\n"


async def test_a_slow_body_arrives_and_blocks_no_other_request(api: Client) -> None:
    body = b'{"metadata":{"name":"slow"}}'
    async with connection(api) as (reader, writer):
        writer.write(b"POST %s HTTP/1.1\r\n" % CONFIG_MAPS.encode() + HEAD)
        writer.write(b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body))
        for byte in body:
            writer.write(bytes([byte]))
            await writer.drain()
            await works(api)
        assert (await reader.readline()).startswith(b"HTTP/1.1 201 ")


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"", id="after-the-handshake"),
        pytest.param(b"POST /api", id="in-the-first-line"),
        pytest.param(b"POST /api HTTP/1.1\r\nHost:", id="in-the-head"),
        pytest.param(
            b"POST "
            + CONFIG_MAPS.encode()
            + b" HTTP/1.1\r\n"
            + HEAD
            + b"Content-Length: 90\r\n\r\n"
            b'{"metadata":{"name":"half"}',
            id="in-the-body",
        ),
        pytest.param(
            b"GET " + CONFIG_MAPS.encode() + b"?watch=1 HTTP/1.1\r\n" + HEAD + b"\r\n",
            id="watching",
        ),
        pytest.param(
            b"POST "
            + CONFIG_MAPS.encode()
            + b" HTTP/1.1\r\n"
            + HEAD
            + b"Transfer-Encoding: chunked\r\n\r\nffffff\r\n{",
            id="in-a-chunk",
        ),
    ],
)
async def test_a_client_that_vanishes_leaves_nothing(api: Client, sent: bytes) -> None:
    for _ in range(20):
        async with connection(api) as (_, writer):
            writer.write(sent)
            await writer.drain()
    await works(api)
    assert (await api.get(f"{CONFIG_MAPS}/half")).status_code == 404
    async with asyncio.timeout(5):
        while open_watches():
            await works(api)


def open_watches() -> int:
    return sum(
        len(watchers)
        for hub in gc.get_objects()
        if isinstance(hub, watching.Hub)
        for groups in hub._watchers.values()
        for watchers in groups.values()
    )


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"GET /healthz HTTP/1.1\r\n\r\n", id="plain-http"),
        pytest.param(b"\x00" * 1000, id="zeros"),
        pytest.param(b"\x16\x03\x01\xff\xff" + b"\xff" * 5000, id="half-a-handshake"),
        pytest.param(b"SSH-2.0-x\r\n", id="ssh"),
    ],
)
async def test_garbage_in_place_of_tls_ends_its_connection_only(api: Client, sent: bytes) -> None:
    for _ in range(10):
        async with connection(api, tls=False) as (_, writer):
            writer.write(sent)
            with contextlib.suppress(ConnectionError):
                await writer.drain()
    await works(api)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\x00" * 100 + b"\r\n\r\n", id="zeros"),
        pytest.param(b"GET\r\n\r\n", id="no-path"),
        pytest.param(b"DANCE / HTTP/1.1\r\n\r\n", id="no-such-method"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n", id="a-length-of-letters"),
        pytest.param(b"GET / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", id="a-negative-length"),
        pytest.param(b"GET /\xff\xfe HTTP/1.1\r\n\r\n", id="a-path-of-bytes"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="http-2"),
        pytest.param(b"GET / HTTP/1.1\r\n" + b"a" * 200_000 + b": b\r\n\r\n", id="a-long-header"),
        pytest.param(
            b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", id="a-bad-chunk"
        ),
        pytest.param(b"CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n", id="connect"),
    ],
)
async def test_nonsense_in_place_of_http_ends_its_connection_only(api: Client, sent: bytes) -> None:
    async with connection(api) as (reader, writer):
        writer.write(sent)
        with contextlib.suppress(ConnectionError):
            await writer.drain()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(5):
                line = await reader.readline()
            assert not line.startswith(b"HTTP/1.1 5"), line
    await works(api)


async def test_an_endless_head_is_cut_off(api: Client) -> None:
    async with connection(api) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(20):
                while not reader.at_eof():
                    writer.write(b"x: " + b"y" * 60_000 + b"\r\n")
                    await writer.drain()
                    await asyncio.sleep(0)  # drain gives no turn once a send has failed
        await ended(reader)
    await works(api)


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\n"])
async def test_a_head_that_does_not_come_is_not_waited_for(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.http.HEAD_SECONDS", 0.2)
    async with serve(options) as server, Client(server.url) as api:
        async with connection(api) as (reader, writer):
            writer.write(sent)
            await ended(reader)
        await works(api)


async def test_a_body_that_does_not_come_is_a_timeout(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.http.REQUEST_SECONDS", 0.2)
    async with serve(options) as server, Client(server.url) as api:
        async with connection(api) as (reader, writer):
            writer.write(f"POST {CONFIG_MAPS} HTTP/1.1\r\n".encode() + HEAD)
            writer.write(b"Content-Length: 9\r\n\r\n{")
            async with asyncio.timeout(5):
                assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
        await works(api)


async def test_a_watcher_that_never_reads_is_cut_off_and_costs_little(
    options: ServerOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hypercobalt.apiserver.watching.MAX_WAITING_BYTES", 2**20)
    monkeypatch.setattr("hypercobalt.runtime.bind.STALLED_SECONDS", 1)
    request = f"GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\n".encode() + HEAD + b"\r\n"
    async with serve(options) as server, Client(server.url) as api:
        async with (
            connection(api) as (reader, writer),
            api.watching(CONFIG_MAPS, fieldSelector="metadata.name=big") as healthy,
        ):
            reader._transport.pause_reading()  # type: ignore[attr-defined]  # a client that hangs
            writer.write(request)
            await api.post(CONFIG_MAPS, json={"metadata": {"name": "big"}})
            assert (await healthy.next())[0] == "ADDED"
            async with asyncio.timeout(30):
                for number in range(80):
                    patch = {"data": {"a": f"{number}" + "x" * 200_000}}
                    path = f"{CONFIG_MAPS}/big"
                    answer = await api.patch_as("merge-patch+json", path, patch)
                    assert answer.status_code == 200
                    assert (await healthy.next())[0] == "MODIFIED"
                while open_watches() > 1:
                    await works(api)
        await works(api)


async def test_500_connections_at_once_are_served(api: Client) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(350):
            await stack.enter_async_context(connection(api, tls=False))  # which send nothing
        crowd = [await stack.enter_async_context(connection(api)) for _ in range(150)]
        for _, writer in crowd:
            writer.write(f"GET {CONFIG_MAPS} HTTP/1.1\r\n".encode() + HEAD + b"\r\n")
        async with asyncio.timeout(10):
            lines = [await reader.readline() for reader, _ in crowd]
        assert set(lines) == {b"HTTP/1.1 200 OK\r\n"}
        await works(api)


async def test_a_stopped_server_does_not_wait_for_its_clients(options: ServerOptions) -> None:
    running = contextlib.AsyncExitStack()
    server = await running.enter_async_context(serve(options))
    async with contextlib.AsyncExitStack() as clients:
        api = await clients.enter_async_context(Client(server.url))
        for sent in (b"", b"GET / HT", b"GET /api HTTP/1.1\r\n" + HEAD + b"\r\n"):
            _, writer = await clients.enter_async_context(connection(api))
            writer.write(sent)
        watch = await clients.enter_async_context(api.watching(CONFIG_MAPS))
        assert watch.status == 200
        async with asyncio.timeout(4):
            await running.aclose()
