"""Consoles of instances, for the API server that passes people's requests on.

    person ── API server ── virt-api ── virt-handler of the guest's node ── serial port

Only the API server is believed about who asks. virt-api has the person's right reviewed, finds the
node, and asks its handler with a token that no other server takes; the handler has the right
reviewed again, and gives the seat. Between the two the frames are handed on as they are.

Source: kubevirt, pkg/virt-api/rest (console.go, dialers.go): statuses of refusals.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs

import msgspec

from hypercobalt.api.access import TokenRequest, TokenRequestSpec
from hypercobalt.api.core import Node
from hypercobalt.api.diagnostics import audience
from hypercobalt.api.kubevirt.console import (
    CONSOLE_PATH,
    CONSOLE_RIGHT,
    HANDLER,
    PROTOCOL,
    VERSION,
    console_path,
)
from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.rbac import ServiceAccount
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube
from hypercobalt.runtime.client.auth import Credential
from hypercobalt.runtime.client.pinned import Pinned, RefusedError
from hypercobalt.runtime.client.pinned_websocket import stream
from hypercobalt.runtime.forwarded import FORWARDED, naming
from hypercobalt.runtime.resource_guard import allowed
from hypercobalt.runtime.routes import Answer, Request, Requester, Route, Upgrade
from hypercobalt.runtime.splice import Stream, splice
from hypercobalt.runtime.websocket import upgraded
from hypercobalt.virt.api.front_proxy import FrontProxy, NotTheFrontProxyError, person
from hypercobalt.virt.api.handler_address import (
    ForeignEndpointError,
    HandlerNetwork,
    handler_of,
)
from hypercobalt.virt.api.statuses import JSON, refusal

log = get_logger(__name__)

SESSIONS: Final = 64
"""Consoles at once: some 20 MiB of buffers, and half of the listener's places for one address."""
DISCOVERY_PATH: Final = f"/apis/{VERSION}"

_BEGINS_SECONDS: Final = 30.0
"""Until the handler answers, which has two reviews made and an Event stored."""
_OPENS_SECONDS: Final = 45.0
_SECONDS: Final = 50.0  # later, so that what is opened is closed here
_TOKEN_SECONDS: Final = 600  # the shortest that an API server gives
_MOST_NAMED: Final = 8 * 1024  # bytes of a header; a handler reads 16 KiB of all
_AT_ONCE: Final = 4  # reviews
_PASSED_ON: Final = frozenset({403, 404, 409})
"""What a handler refuses on its part. Its 401 is about virt-api, and not about the person."""


@dataclass(frozen=True, slots=True)
class OwnAccount:
    """The ServiceAccount of this process."""

    namespace: str
    name: str


class RefusedConsoleError(HypercobaltError):
    """A console that is not opened.

    Args:
        code: HTTP status of the refusal.
        message: for the person.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Subresources:
    """The pages of the group.

    Args:
        kube: reads instances and Nodes, makes reviews and tokens.
        account: of this process, whose tokens handlers are shown.
        network: where handlers are.
        proxy: how the API server shows itself, as published by now.
        most: consoles at once.
    """

    def __init__(
        self,
        kube: Kube,
        account: OwnAccount,
        network: HandlerNetwork,
        proxy: Callable[[], FrontProxy],
        most: int = SESSIONS,
    ) -> None:
        self._kube, self._account, self._network, self._proxy = kube, account, network, proxy
        self._reviews = asyncio.Semaphore(_AT_ONCE)
        self._most, self._sessions = most, 0
        self._console_page = Route(
            CONSOLE_PATH, self._console, access=CONSOLE_RIGHT, seconds=_SECONDS
        )

    @property
    def routes(self) -> tuple[Route, ...]:
        """Return the pages."""
        return self._console_page, Route(DISCOVERY_PATH, _discovery)

    async def admits(self, request: Request, route: Route | None) -> Requester | Answer:
        """The person whom the API server names, if they have the right; else the refusal."""
        try:
            who = person(self._proxy(), request)
        except NotTheFrontProxyError as error:
            if request.certificate:
                log.warning("request_refused", address=request.address, error=str(error))
            return refusal(401, str(error))
        right = route.right(request.path) if route is not None else None
        if right is None:
            return who
        try:
            found = await allowed(self._kube, who, right, self._reviews)
        except HypercobaltError as error:
            return refusal(503, f"the API server does not decide on this request: {error}")
        if isinstance(found, Answer):
            log.warning("console_denied", user=who.user, path=request.path)
            return refusal(found.status, found.body.decode())
        return found

    async def _console(self, request: Request) -> Answer | Upgrade:
        names, who = self._console_page.named(request.path), request.requester
        if names is None or who is None:
            return refusal(404, "there is no such console")
        if request.method == "HEAD":
            return refusal(405, "a console is opened by GET")
        head = upgraded(request, PROTOCOL)
        if isinstance(head, Answer):
            return refusal(head.status, head.body.decode())
        if "true" in parse_qs(request.query).get("preserveSession", ()):
            return refusal(400, "preserveSession: not honoured, a new session takes over")
        if self._sessions >= self._most:
            return refusal(429, f"{self._most} consoles are open here; close one, or try again")
        opened = AsyncExitStack()
        self._sessions += 1
        opened.callback(self._left)
        try:
            async with asyncio.timeout(_OPENS_SECONDS):
                found = await opened.enter_async_context(
                    self._handler(names["namespace"], names["name"], who)
                )
        except TimeoutError:
            await opened.aclose()
            return refusal(504, f"no console in {_OPENS_SECONDS:g} s; try again")
        except HypercobaltError as error:
            await opened.aclose()
            code = error.code if isinstance(error, RefusedConsoleError) else 503
            log.warning("console_not_opened", path=request.path, user=who.user, error=str(error))
            return refusal(code, str(error))
        except BaseException:
            await opened.aclose()
            raise

        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            async with opened:
                await splice((reader, writer), found)

        return Upgrade(head, run)

    def _left(self) -> None:
        self._sessions -= 1

    @asynccontextmanager
    async def _handler(self, namespace: str, name: str, who: Requester) -> AsyncGenerator[Stream]:
        """The connection to the guest's handler, once it has given this person the seat.

        Raises:
            HypercobaltError: the console cannot be opened.
        """
        vmi = await self._kube.get(VirtualMachineInstance, name, namespace)
        if vmi is None:
            raise RefusedConsoleError(404, f"there is no VirtualMachineInstance {namespace}/{name}")
        node = await self._kube.get(Node, node_of(vmi))
        if node is None:
            raise RefusedConsoleError(503, f"there is no Node {vmi.status.nodeName}")
        try:
            endpoint = handler_of(node, self._network)
        except ForeignEndpointError as error:
            raise RefusedConsoleError(503, str(error)) from error
        named = naming(who)
        if len(named) > _MOST_NAMED:
            raise RefusedConsoleError(400, f"user {who.user} has too many groups for a console")
        credential = await self._credential(node.metadata.name)
        about = f"the virt-handler of {node.metadata.name}"
        server = Pinned(endpoint.url, endpoint.certificateSHA256)
        path, lines = console_path(namespace, name), (f"{FORWARDED}: {named}",)
        begun = stream(server, path, credential, PROTOCOL, seconds=_BEGINS_SECONDS, headers=lines)
        async with AsyncExitStack() as opened:
            try:
                found = await opened.enter_async_context(begun)
            except RefusedError as error:
                code = error.code if error.code in _PASSED_ON else 503
                raise RefusedConsoleError(code, f"{about} refuses: {error}") from error
            except HypercobaltError as error:
                raise RefusedConsoleError(503, f"{about} does not answer: {error}") from error
            yield found

    async def _credential(self, node: str) -> Credential:
        """A token for the handler of one node, of no use to any other server."""
        meta = ObjectMeta(name=self._account.name, namespace=self._account.namespace)
        spec = TokenRequestSpec(
            audiences=(audience(HANDLER, node),), expirationSeconds=_TOKEN_SECONDS
        )
        made = await self._kube.create_in(
            ServiceAccount,
            self._account.name,
            "token",
            TokenRequest(metadata=meta, spec=spec),
            self._account.namespace,
        )
        return Credential(authorization=f"Bearer {made.status.token}")


def node_of(vmi: VirtualMachineInstance) -> str:
    """The node of a guest that has a console. Pure.

    Raises:
        RefusedConsoleError: it has none.
    """
    about = f"VirtualMachineInstance {vmi.metadata.namespace}/{vmi.metadata.name}"
    phase = vmi.status.phase or VMIPhase.PENDING
    if phase == VMIPhase.FAILED:
        raise RefusedConsoleError(409, f"{about} is Failed: its guest has ended")
    if phase != VMIPhase.RUNNING or not vmi.status.nodeName:
        text = f"{about} is {phase}, not Running: its console is there while its guest runs"
        raise RefusedConsoleError(400, text)
    if vmi.spec.domain.devices.autoattachSerialConsole is False:
        text = "has no serial console: spec.domain.devices.autoattachSerialConsole is false"
        raise RefusedConsoleError(400, f"{about} {text}")
    return vmi.status.nodeName


async def _discovery(_: Request) -> Answer:
    """What there is in the group, for clients that look before they ask."""
    console = {
        "name": "virtualmachineinstances/console",
        "singularName": "",
        "namespaced": True,
        "kind": "",
        "verbs": ["get"],
    }
    body = {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": VERSION,
        "resources": [console],
    }
    return Answer(200, msgspec.json.encode(body), JSON)
