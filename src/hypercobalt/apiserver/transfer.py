"""Bodies of requests and answers, as messages of ASGI.

A body is read when the pipeline needs it; an answer that does not need it ends the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, MutableMapping
from itertools import chain
from typing import Any, cast

from hypercobalt.apiserver import errors
from hypercobalt.apiserver.inflight import Share
from hypercobalt.apiserver.requests.bodies import MAX_BODY
from hypercobalt.apiserver.requests.request import PIECE, Request, Response, Stream

LINGER_SECONDS = 1.0  # for a client that still writes while it is refused
UNREAD_SECONDS = 30.0  # without a byte that the client takes; then its connection ends
MAX_WARNINGS, MAX_WARNING = 4096, 256  # characters: all of an answer, each when that is exceeded

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class ClientGoneError(Exception):
    """The client went away before its request was whole."""


class IncomingBody:
    """The body of one request.

    Attributes:
        whole: whether nothing of it is still to come.
        share: what it holds of the limit on all bodies.
    """

    def __init__(self, receive: Receive, headers: Mapping[str, str], share: Share) -> None:
        self._receive, self.share = receive, share
        self.whole = (
            headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers
        )
        self._awaits_continue = "expect" in headers

    async def read(self) -> bytes:
        """Read the whole body.

        Raises:
            StatusError: 413 where it is too large, 429 where too much is under way.
        """
        chunks: list[bytes] = []
        while not self.whole:
            chunks.append(await self._next())
            self.share.take(len(chunks[-1]))
            if sum(map(len, chunks)) > MAX_BODY:
                raise errors.too_large(MAX_BODY)
        return b"".join(chunks)

    async def discard(self) -> None:
        """Take what an answered client still sends, for a while: else it may miss the answer."""
        with contextlib.suppress(TimeoutError, ClientGoneError):
            async with asyncio.timeout(LINGER_SECONDS):
                while not self.whole and not self._awaits_continue:
                    await self._next()

    async def _next(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGoneError
        self.whole = not message.get("more_body", False)
        return cast("bytes", message.get("body", b""))


def _head(content_type: str) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", content_type.encode()),
        (b"cache-control", b"no-cache, private"),
    ]


async def send_response(answer: Response, request: Request, body: IncomingBody, send: Send) -> None:
    headers = _head(answer.content_type)
    if not body.whole:
        headers.append((b"connection", b"close"))
    headers.append((b"content-length", str(answer.size).encode()))
    headers += [(name.lower().encode(), text.encode()) for name, text in answer.headers.items()]
    headers += [(b"warning", text) for text in _warnings(request.warnings)]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    if request.method != "HEAD":
        await _send_pieces(chain((answer.body,), answer.rest), send)
    await body.discard()
    await send({"type": "http.response.body", "body": b""})


async def _send_pieces(parts: Iterable[bytes], send: Send) -> None:
    """Send a body, or raise TimeoutError where the client takes nothing of it."""
    now = asyncio.get_running_loop().time
    async with asyncio.timeout(UNREAD_SECONDS) as unread:
        for part in parts:
            whole = memoryview(part)
            for start in range(0, len(part), PIECE):
                piece = whole[start : start + PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
                unread.reschedule(now() + UNREAD_SECONDS)


def _warnings(texts: list[str]) -> Iterator[bytes]:
    """The values of Warning headers; a client that sends nonsense gets no megabytes back."""
    left = MAX_WARNINGS
    longest = left if sum(map(len, texts)) <= left else MAX_WARNING
    for text in dict.fromkeys(text[:longest] for text in texts):
        left -= len(text)
        if left < 0:
            return
        clean = "".join(letter if letter >= " " and letter != "\x7f" else " " for letter in text)
        quoted = clean.replace("\\", "\\\\").replace('"', '\\"')
        yield f'299 - "{quoted}"'.encode()


async def send_stream(answer: Stream, receive: Receive, send: Send) -> None:
    """Send a watch, or raise TimeoutError where the client takes nothing of it."""
    headers = _head(answer.content_type)
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    sending = asyncio.create_task(_send_chunks(answer, send), name="watch")
    gone = asyncio.create_task(_until_gone(receive), name="watch-client")
    try:
        await asyncio.wait({sending, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sending.cancel()
        gone.cancel()
        await asyncio.wait({sending, gone})
        answer.close()
    if not sending.cancelled():
        sending.result()  # or its error


async def _send_chunks(answer: Stream, send: Send) -> None:
    # The client takes the watch as open once it has the head, so the head is sent alone.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    async for chunk in answer.chunks:
        await _send_pieces((chunk,), send)
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
