"""The server as a whole: sockets, TLS, start and stop.

    async with serve(Options(data=Path("data"))) as server:
        …  # server.url, server.kubeconfig

HTTP is uvicorn's; this module feeds it bytes from the pipeline. A request's head and body must
arrive within a deadline and below a size, so that slow or greedy clients cost little.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import ssl
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Generator,
    Iterator,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from urllib.parse import parse_qsl

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from hypercobalt.apiserver import status
from hypercobalt.apiserver.access import pki
from hypercobalt.apiserver.access.authentication import Authenticator, read_tokens
from hypercobalt.apiserver.collector import Collector
from hypercobalt.apiserver.kinds.resources import CRD_RESOURCE, Registry
from hypercobalt.apiserver.pipeline import ANONYMOUS, Api
from hypercobalt.apiserver.reading import Reader
from hypercobalt.apiserver.request import (
    MAX_BODY,
    Request,
    Response,
    Stream,
    User,
    error_response,
)
from hypercobalt.apiserver.status import JSONObject
from hypercobalt.apiserver.store import Event, Key, Store
from hypercobalt.apiserver.watching import Hub
from hypercobalt.apiserver.writing import Writer
from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger

log = get_logger(__name__)

BODY_SECONDS = 60.0  # a body must have arrived after this long
KEEP_ALIVE_SECONDS = 90
STOP_SECONDS = 5
HEAD_SECONDS = 32.0  # a request's head must have arrived after this long, as in kube-apiserver
MAX_HEAD = 2**20  # bytes, as Go's http.Server
STALLED_SECONDS = 60  # a client that takes nothing for so long is gone
MAX_WARNINGS, MAX_WARNING = 4096, 256  # characters: all of an answer, each when that is exceeded
SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
SYSTEM_USER = User("system:apiserver", groups=("system:masters",))

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run a server.

    Args:
        data: directory of the database and the certificates; made when missing.
        address: to listen on.
        port: to listen on; 0 takes a free one.
        token_auth_file: static tokens in kube-apiserver's CSV form.
        kubeconfig: where to write an administrator's kubeconfig; in `data` when not given.
        manifests: objects, as JSON, that are applied at every start before the server is ready.
    """

    data: Path
    address: str = "127.0.0.1"
    port: int = 6443
    token_auth_file: Path | None = None
    kubeconfig: Path | None = None
    manifests: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    kubeconfig: Path
    stopped: asyncio.Future[None]


@contextlib.asynccontextmanager
async def serve(options: Options) -> AsyncGenerator[Server]:
    """Run a server until the block is left.

    Raises:
        ConfigurationError: the data directory, a file or the address cannot be used.
        StoreError: the database is damaged or not ours.
    """
    tokens = read_tokens(options.token_auth_file) if options.token_auth_file else {}
    store = await Store.open(options.data)
    try:
        async with _serve_store(options, store, Authenticator(tokens)) as server:
            yield server
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _serve_store(
    options: Options, store: Store, authenticator: Authenticator
) -> AsyncGenerator[Server]:
    # Making certificates takes 0.1 s, most of it to load a library: let that begin before the rest.
    preparing = asyncio.create_task(
        asyncio.to_thread(pki.prepare, options.data / "pki", options.address), name="certificates"
    )
    registry = Registry.load()
    _load_definitions(store, registry)
    hub = Hub(store)
    writer = Writer(store, registry)
    api = Api(store, registry, Reader(store, hub), writer)
    collector = Collector(store, registry, writer)
    try:
        await writer.settle()  # what a crash left between a definition and its status
        collector.start()
        await _apply_defaults(store, api, options.manifests)
        files = await preparing
        with _listen(options) as listener:
            host, port = listener.getsockname()[:2]
            url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
            path = options.kubeconfig or options.data / "kubeconfig"
            _write_kubeconfig(path, pki.kubeconfig(url, files.ca, files.admin))
            http = _Http(_App(api, authenticator), files)
            async with http.running(listener) as stopped:
                log.info("serving", url=url, kubeconfig=str(path))
                yield Server(url, path, stopped)
                hub.close()
    finally:
        hub.close()
        await asyncio.wait({preparing})
        await collector.stop()


def _load_definitions(store: Store, registry: Registry) -> None:
    """Serve the stored definitions, and follow their changes from now on."""
    for _, stored in store.scan(CRD_RESOURCE):
        registry.define(msgspec.json.decode(stored.data))

    def follow(event: Event) -> None:
        if event.key.resource != CRD_RESOURCE:
            return
        definition: JSONObject = msgspec.json.decode(event.data)
        if event.type == "DELETED":
            definition.pop("status", None)
        registry.define(definition)

    store.listen(follow)


async def _apply_defaults(store: Store, api: Api, manifests: tuple[bytes, ...]) -> None:
    missing = [n for n in SYSTEM_NAMESPACES if store.get(Key("namespaces", "", n)) is None]
    for name in missing:
        body = b'{"metadata":{"name":"%s"}}' % name.encode()
        query = {"fieldManager": "kube-apiserver"}
        await _send(api, Request("POST", "/api/v1/namespaces", query, {}, SYSTEM_USER, body))
    for manifest in manifests:
        await _apply(api, msgspec.json.decode(manifest))


async def _apply(api: Api, manifest: JSONObject) -> None:
    meta, kind = manifest["metadata"], str(manifest["kind"])
    name = meta.get("name") if isinstance(meta, dict) else ""
    version = str(manifest["apiVersion"])
    prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = f"{kind.lower()}s"
    request = Request(
        "PATCH",
        f"{prefix}/{plural}/{name}",
        {"fieldManager": "cobalt-apiserver", "force": "true"},
        {"content-type": "application/apply-patch+yaml"},
        SYSTEM_USER,
        msgspec.json.encode(manifest),
    )
    await _send(api, request)


async def _send(api: Api, request: Request) -> None:
    answer = await api.handle(request)
    if isinstance(answer, Response) and answer.code >= 400:  # noqa: PLR2004  # HTTP errors
        text = answer.body.decode()
        raise ConfigurationError(f"{request.path} cannot be written at start: {text}")


def _listen(options: Options) -> socket.socket:
    family = socket.AF_INET6 if ":" in options.address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # for TCP_NODELAY
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit these: clients that vanish or never read are cut off.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, STALLED_SECONDS)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STALLED_SECONDS * 1000)
        listener.bind((options.address, options.port))
        listener.listen(1024)
    except (OSError, OverflowError) as error:
        listener.close()
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigurationError(
            f"cannot listen on {options.address}:{options.port}: {reason}; "
            "name another with --address or --port"
        ) from error
    return listener


def _write_kubeconfig(path: Path, data: bytes) -> None:
    try:
        if not path.exists() or path.read_bytes() != data:
            pki.write_secret(path, data)
    except OSError as error:
        raise ConfigurationError(f"kubeconfig {path} cannot be written: {error}") from error


# -- HTTP --------------------------------------------------------------------------------------


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which bounds a request's head and passes the client's certificate on."""

    _deadline: asyncio.TimerHandle | None = None  # while a head is awaited
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._deadline is not None:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD:
                self.transport.abort()

    def _await_head(self) -> None:
        self._stop_waiting()
        self._head_bytes = 0
        self._deadline = self.loop.call_later(HEAD_SECONDS, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def on_headers_complete(self) -> None:
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._await_head()
        tls = self.transport.get_extra_info("ssl_object")
        peer = tls.getpeercert() if tls is not None else None
        self.scope["extensions"] = {"peer": peer if peer is not None else {}}

    def shutdown(self) -> None:
        super().shutdown()
        cycle = cast("RequestResponseCycle | None", self.cycle)  # None before the first request
        if cycle is None or cycle.response_complete:
            # An idle client would not answer the end of TLS, and we would wait for it.
            self.transport.abort()


class _Uvicorn(uvicorn.Server):
    """Signals are the caller's business: a server may run inside another program."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


class _Http:
    def __init__(self, app: _App, files: pki.Pki) -> None:
        config = uvicorn.Config(
            app,
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=STOP_SECONDS,
            ssl_certfile=files.server_certificate,
            ssl_keyfile=files.server_key,
            ssl_ca_certs=str(files.ca_file),
            ssl_cert_reqs=ssl.CERT_OPTIONAL,
        )
        self._server = _Uvicorn(config)

    @contextlib.asynccontextmanager
    async def running(self, listener: socket.socket) -> AsyncGenerator[asyncio.Future[None]]:
        task = asyncio.create_task(self._server.serve(sockets=[listener]), name="http")
        try:
            await self._server.ready.wait()
            yield task
        finally:
            self._server.should_exit = True
            await asyncio.wait({task})


class _App:
    """The ASGI side of the pipeline."""

    def __init__(self, api: Api, authenticator: Authenticator) -> None:
        self._api, self._authenticator = api, authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        request = Request(
            scope["method"],
            scope["path"],
            _query(scope["query_string"].decode("latin-1")),
            headers,
            self._user(scope, headers),
        )
        try:
            request.body = await _read_body(receive)
            answer = await self._api.handle(request)
        except status.StatusError as error:
            answer = error_response(error)
        except _GoneError:
            return
        except Exception:  # a bug must end one request, not the server
            log.exception("request_failed", method=request.method, path=request.path)
            answer = error_response(status.internal("see the server's log"))
        if isinstance(answer, Stream):
            await _send_stream(answer, receive, send)
        else:
            await _send_response(answer, request, send)

    def _user(self, scope: Scope, headers: dict[str, str]) -> User:
        authorization = headers.get("authorization", "")
        user = self._authenticator.by_certificate(scope["extensions"].get("peer"))
        if user is None and authorization:
            user = self._authenticator.by_token(authorization)
        return user or User(ANONYMOUS, groups=("system:unauthenticated",))


def _query(text: str) -> dict[str, str]:
    """The first value of each parameter, as Go's url.Values.Get."""
    return dict(reversed(parse_qsl(text, keep_blank_values=True)))


class _GoneError(Exception):
    """The client went away before its request was whole."""


async def _read_body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(BODY_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _GoneError
                chunks.append(message.get("body", b""))
                size += len(chunks[-1])
                if size > MAX_BODY:
                    raise status.too_large(MAX_BODY)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        text = f"the body did not arrive within {BODY_SECONDS:g} s"
        raise status.StatusError(408, "Timeout", text) from None


def _head(content_type: str) -> list[tuple[bytes, bytes]]:
    return [
        (b"content-type", content_type.encode()),
        (b"cache-control", b"no-cache, private"),
    ]


async def _send_response(answer: Response, request: Request, send: Send) -> None:
    headers = _head(answer.content_type)
    length = len(answer.body) + sum(map(len, answer.rest))
    headers.append((b"content-length", str(length).encode()))
    headers += [(name.lower().encode(), text.encode()) for name, text in answer.headers.items()]
    headers += [(b"warning", text) for text in _warnings(request.warnings)]
    await send({"type": "http.response.start", "status": answer.code, "headers": headers})
    for piece in () if request.method == "HEAD" else (answer.body, *answer.rest):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _warnings(texts: Sequence[str]) -> Iterator[bytes]:
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


async def _send_stream(answer: Stream, receive: Receive, send: Send) -> None:
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


async def _send_chunks(answer: Stream, send: Send) -> None:
    # The head alone must reach the client: until then it does not know that the watch is open.
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    async for chunk in answer.chunks:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def run(options: Options, ready: Callable[[Server], Awaitable[None]]) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        options: how.
        ready: called once the server answers.
    """
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with serve(options) as server:
        await ready(server)
        waiting = asyncio.create_task(stop.wait(), name="signals")
        both: set[asyncio.Future[Any]] = {waiting, server.stopped}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
