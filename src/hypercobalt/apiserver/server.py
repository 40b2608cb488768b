"""The server as a whole: what it is made of, its start and its stop.

async with serve(ServerOptions(data=Path("data"))) as server:
…  # server.url, server.kubeconfig
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import msgspec

from hypercobalt import pki
from hypercobalt.apiserver import http
from hypercobalt.apiserver.access import bootstrap, client_ca, jwt, kubeconfig
from hypercobalt.apiserver.access.authentication import Authenticator, read_tokens
from hypercobalt.apiserver.access.renewal import keeping_current
from hypercobalt.apiserver.access.tokens import Accounts
from hypercobalt.apiserver.collector import Collector
from hypercobalt.apiserver.errors import JSONObject
from hypercobalt.apiserver.hooks import Hook
from hypercobalt.apiserver.kinds.resources import Registry
from hypercobalt.apiserver.node_lifecycle import GRACE, NodeLifecycle
from hypercobalt.apiserver.pipeline import Api
from hypercobalt.apiserver.requests.bodies import APPLY_PATCH
from hypercobalt.apiserver.requests.request import SYSTEM_USER, Request, Response
from hypercobalt.apiserver.storage.objects import StoreError
from hypercobalt.apiserver.storage.store import Store
from hypercobalt.apiserver.values import text_at
from hypercobalt.apiserver.watching import Hub
from hypercobalt.errors import ConfigurationError
from hypercobalt.logs import get_logger
from hypercobalt.runtime.bind import listening

log = get_logger(__name__)

SYSTEM_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """How to run a server.

    Args:
        data: directory of the database and the certificates; made when missing.
        address: to listen on.
        port: to listen on; 0 takes a free one.
        token_auth_file: static tokens in kube-apiserver's CSV form.
        kubeconfig: where to write an administrator's kubeconfig; in `data` when not given.
        manifests: objects, as JSON, that are applied at every start before the server is ready.
        node_grace: how long a Node with a Lease may be silent until its conditions are Unknown.
        certificates_every: how often the certificates' age is looked at, to renew them in time.
        hooks: admission of single kinds.
    """

    data: Path
    address: str = "127.0.0.1"
    port: int = 6443
    token_auth_file: Path | None = None
    kubeconfig: Path | None = None
    manifests: tuple[bytes, ...] = ()
    node_grace: timedelta = GRACE
    certificates_every: timedelta = timedelta(days=1)
    hooks: tuple[Hook, ...] = ()


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    url: str
    kubeconfig: Path
    stopped: asyncio.Future[None]


@contextlib.asynccontextmanager
async def serve(options: ServerOptions) -> AsyncGenerator[Server]:
    """Run a server until the block is left.

    Raises:
        ConfigurationError: the data directory, a file or the address cannot be used.
        StoreError: the database is damaged or not ours.
    """
    tokens = read_tokens(options.token_auth_file) if options.token_auth_file else {}
    store = await Store.open(options.data)
    try:
        accounts = Accounts(store, jwt.TokenKey(options.data / "pki" / "sa.key"))
        async with _serve_store(options, store, Authenticator(tokens, accounts)) as server:
            yield server
    finally:
        await store.close()


@contextlib.asynccontextmanager
async def _serve_store(
    options: ServerOptions, store: Store, authenticator: Authenticator
) -> AsyncGenerator[Server]:
    # Making certificates takes a process of its own 0.2 s: let it begin before the rest.
    prepare = partial(pki.prepare, options.data / "pki", options.address)
    preparing = asyncio.create_task(asyncio.to_thread(prepare), name="certificates")
    registry = Registry.load()
    hub = Hub(store)
    api = Api(store, registry, hub, authenticator, options.hooks)
    collector = Collector(store, registry, api.writer, api.definitions)
    nodes = NodeLifecycle(store, registry, api.writer, grace=options.node_grace)
    try:
        with contextlib.suppress(StoreError):  # the disk is full; the collector tries again
            await api.definitions.settle()  # definitions whose status a crash left unwritten
        collector.start()
        nodes.start()
        api.aggregation.start()
        await _write_first_objects(api, options.manifests)
        files = await preparing
        await client_ca.publish(api.handle, files.ca)
        sockets = await listening(options.address, options.port)
        host, port = sockets[0].getsockname()[:2]
        url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        path = options.kubeconfig or options.data / "kubeconfig"
        tls = pki.server_context(files)

        def use(files: pki.Pki) -> None:
            pki.present(tls, files)
            kubeconfig.write(path, kubeconfig.render(url, files.ca, files.admin))

        with contextlib.ExitStack() as stack:
            for one in sockets:
                stack.enter_context(one)
            use(files)
            async with (
                keeping_current(files, every=options.certificates_every, prepare=prepare, use=use),
                http.running(api, authenticator, tls, sockets) as stopped,
            ):
                log.info("server_started", url=url, kubeconfig=str(path))
                yield Server(url, path, stopped)
                hub.close()
    finally:
        hub.close()
        await asyncio.wait({preparing})
        await api.aggregation.stop()
        await nodes.stop()
        await collector.stop()


async def _write_first_objects(api: Api, manifests: tuple[bytes, ...]) -> None:
    await bootstrap.ensure(api.handle)
    query = {"fieldManager": "kube-apiserver"}
    for name in SYSTEM_NAMESPACES:
        body = b'{"metadata":{"name":"%s"}}' % name.encode()
        request = Request("POST", "/api/v1/namespaces", query, {}, SYSTEM_USER, body)
        await _send(api, request, but=HTTPStatus.CONFLICT)
    query = {"fieldManager": "cobalt-apiserver", "force": "true"}
    for manifest in manifests:
        path = _path(msgspec.json.decode(manifest))
        headers = {"content-type": APPLY_PATCH}
        await _send(api, Request("PATCH", path, query, headers, SYSTEM_USER, manifest))


def _path(manifest: JSONObject) -> str:
    version, plural = str(manifest["apiVersion"]), f"{str(manifest['kind']).lower()}s"
    prefix = "apis" if "/" in version else "api"
    return f"/{prefix}/{version}/{plural}/{text_at(manifest, 'metadata', 'name')}"


async def _send(api: Api, request: Request, but: int = 0) -> None:
    answer = await api.handle(request)
    if isinstance(answer, Response) and answer.code >= HTTPStatus.BAD_REQUEST:
        if answer.code == but:
            return
        text = answer.body.decode()
        raise ConfigurationError(f"{request.path} cannot be written at start: {text}")


async def run(options: ServerOptions, ready: Callable[[Server], Awaitable[None]]) -> None:
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
