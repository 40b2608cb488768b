"""Answers of a hostile agent: none is read without bound, and none passes for a whole one."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import ssl
from pathlib import Path

import pytest

from hypercobalt.errors import HypercobaltError, TransientError
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import CutOffError, Pinned, call
from hypercobalt.tls.self_signed import self_signed

IDLE = 1.0
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


async def read(answer: bytes, *, ends: bool) -> bytes:
    """The body of that answer of a server, which then closes, or stays."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    descriptor = self_signed()
    try:
        path = f"/proc/self/fd/{descriptor}"
        context.load_cert_chain(path)
        pem = Path(path).read_text().partition("-----BEGIN PRIVATE")[0]
    finally:
        os.close(descriptor)
    stays = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        if not ends:
            await stays.wait()
        writer.close()

    listening = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=context)
    url = f"https://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    server = Pinned(url, hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest())
    try:
        async with call(server, "GET", "/", Credential(), seconds=5, idle=IDLE) as reply:
            return b"".join([chunk async for chunk in reply.chunks])
    finally:
        stays.set()
        listening.close()


@pytest.mark.parametrize(
    "url",
    [
        *("https://10.0.0.1:99999", "https://10.0.0.1:x", "https://[::1", "https://:9188", "x"),
        *("https://10.0.0.1", "https://\u00e4.example:9188", f"https://{'a' * 64}.example:9188"),
    ],
)
async def test_url_that_a_captured_agent_chose_is_refused_by_name(url: str) -> None:
    with pytest.raises(HypercobaltError, match=re.escape(url)):
        async with call(Pinned(url, ""), "GET", "/", Credential(), seconds=5):
            pass


async def test_answer_is_the_body_whatever_its_framing() -> None:
    assert await read(OK + b"Content-Length: 5\r\n\r\nhello", ends=False) == b"hello"
    assert await read(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n", ends=False) == b"hello"


@pytest.mark.parametrize("size", [b"-1", b"0x5", b"1_0", b"+5"])
async def test_chunk_without_a_size_is_refused_at_once(size: bytes) -> None:
    with pytest.raises(CutOffError, match="cut off"):
        await read(CHUNKED + size + b"\r\n" + bytes(100), ends=False)


@pytest.mark.parametrize("length", [b"-1", b"+5", b"1_0", b"5x"])
async def test_length_that_is_no_number_is_refused_at_once(length: bytes) -> None:
    with pytest.raises(TransientError, match="Content-Length"):
        await read(OK + b"Content-Length: " + length + b"\r\n\r\n" + bytes(100), ends=False)


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(OK + b"Content-Length: 50\r\n\r\nhello", id="shorter than its length"),
        pytest.param(CHUNKED + b"5\r\nhello\r\n", id="no last chunk"),
        pytest.param(CHUNKED + b"50\r\nhello", id="in a chunk"),
        pytest.param(OK + b"\r\nhello", id="no length"),
    ],
)
async def test_answer_that_does_not_show_its_end_is_cut_off(answer: bytes) -> None:
    with pytest.raises(CutOffError):
        await read(answer, ends=True)


async def test_answer_that_is_not_http_is_an_error_of_the_server() -> None:
    with pytest.raises(TransientError, match="not HTTP"):
        await read(b"SSH-2.0-OpenSSH\r\n\r\n", ends=False)
