"""The simulated cloud behind one HTTP server: each service below a path of its own."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec

from tests.simulated_openstack import compute, identity, placement, resources
from tests.simulated_openstack.http import (
    Answer,
    RefusalError,
    Request,
    Route,
    Routes,
    encode,
)
from tests.simulated_openstack.life import Life
from tests.simulated_openstack.script import CutError, HungError, Script
from tests.simulated_openstack.world import World

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Found = tuple[Route, Mapping[str, str]]

_MICROVERSION: Final = re.compile(r"(\d+)\.(\d+)")


class App:
    """ASGI over a world."""

    def __init__(self, world: World, life: Life, script: Script, tokens: identity.Tokens) -> None:
        self._world, self._script, self._tokens = world, script, tokens
        services = (
            identity.service(tokens),
            compute.service(life),
            placement.SERVICE,
            resources.IMAGES,
            resources.NETWORKS,
            resources.VOLUMES,
        )
        self._services = {one.name: (one, Routes(one.routes)) for one in services}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        content = await _body(receive)
        try:
            answer = await self._answer(scope, content)
        except CutError:
            # Too short for its length: the server closes the connection.
            answer = Answer(200, raw=b"", headers={"content-length": "1"})
        except HungError:
            await _gone(receive)
            return
        await _send(send, answer)

    async def _answer(self, scope: Scope, content: bytes) -> Answer:
        headers = {n.decode("latin-1"): v.decode("latin-1") for n, v in scope["headers"]}
        name, _, rest = str(scope["path"]).removeprefix("/").partition("/")
        path = f"/{rest}" if rest else ""
        if name == "simulated":
            return self._control(str(scope["method"]), path)
        if name not in self._services:
            self._script.calls[f"elsewhere {scope['method']} {scope['path']}"] += 1
            return Answer(503, {"error": {"code": 503, "message": f"nothing is at /{name}"}})
        service, routes = self._services[name]
        base = f"{scope['scheme']}://{headers.get('host', 'localhost')}/{name}{service.path}"
        if not path.startswith(service.path):
            return Answer(404, service.error(404, "The resource could not be found."))
        request = Request(
            self._world,
            service,
            scope["method"],
            path.removeprefix(service.path),
            base,
            dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)),
            headers,
            content,
        )
        found = routes.find(request.method, request.path)
        template = found[0].template if found else request.path
        kind = f"{name} {request.method} {template}{_action(request)}"

        def work() -> Answer:
            return self._work(request, found)

        answer = await self._script.play(kind, request, work)
        if service.versions is not None and request.version != (0, 0):
            major, minor = request.version
            answer.headers = {"openstack-api-version": f"{name} {major}.{minor}", **answer.headers}
        return answer

    def _control(self, method: str, path: str) -> Answer:
        """Calls of a benchmark in another process."""
        if path == "/times":
            return Answer(200, self._script.times)
        counted = dict(self._script.calls)
        if method == "DELETE":
            self._script.forget()
        return Answer(200, counted)

    def _work(self, request: Request, found: Found | None) -> Answer:
        error = request.service.error
        try:
            request.version = _version(request)
            request.caller = self._tokens.find(request.headers.get("x-auth-token", ""))
            if request.caller is None and not (found and found[0].public):
                text = "The request you have made requires authentication."
                shown = {"error": {"code": 401, "title": "Unauthorized", "message": text}}
                return Answer(401, shown)
            if found is None:
                return Answer(404, error(404, "The resource could not be found."))
            one, request.parts = found
            return one.handler(request)
        except RefusalError as refusal:
            return Answer(refusal.code, error(refusal.code, refusal.message, refusal.kind))


def _action(request: Request) -> str:
    """The only key of an action's body, as a part of the call's kind."""
    if request.method != "POST" or not request.path.endswith("/action"):
        return ""
    try:
        body = msgspec.json.decode(request.content)
    except msgspec.DecodeError:
        return ""
    return f" {next(iter(body))}" if isinstance(body, dict) and body else ""


def _version(request: Request) -> tuple[int, int]:
    """The microversion of a request; the oldest when it names none.

    Raises:
        RefusalError: 406: the service has not got it.
    """
    service = request.service
    if service.versions is None:
        return (0, 0)
    oldest, newest = service.versions
    kind, _, text = request.headers.get("openstack-api-version", "").partition(" ")
    if kind != service.name:
        text = request.headers.get("x-openstack-nova-api-version", "")
    if not text:
        return oldest
    if text == "latest":
        return newest
    found = _MICROVERSION.fullmatch(text)
    if found is None:
        raise RefusalError(400, f"API Version String {text} is of invalid format.")
    wanted = (int(found[1]), int(found[2]))
    if not oldest <= wanted <= newest:
        limits = f"Minimum is {oldest[0]}.{oldest[1]} and maximum is {newest[0]}.{newest[1]}"
        raise RefusalError(406, f"Version {text} is not supported by the API. {limits}.")
    return wanted


async def _body(receive: Receive) -> bytes:
    chunks: list[bytes] = []
    while True:
        message = await receive()
        chunks.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(chunks)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, answer: Answer) -> None:
    body = answer.raw
    if body is None:
        body = b"" if answer.body is None else encode(answer.body)
    headers: Mapping[str, str] = {
        "content-type": "application/json",
        "content-length": str(len(body)),
        **answer.headers,
    }
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.code, "headers": encoded})
    await send({"type": "http.response.body", "body": body})
