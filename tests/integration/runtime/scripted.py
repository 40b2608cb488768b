"""A small Kubernetes API on a real socket, whose faults a test can order.

It keeps objects of any collection as JSON, gives each write a version, and logs it for watches. It
checks nothing: what it is for is what happens on the way between it and a client.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit
from uuid import uuid4

import jsonpatch
import jsonpointer
from tests.waiting import Pause

Json = dict[str, object]


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: Json

    @property
    def verb(self) -> str:
        if self.method != "GET":
            return self.method.lower()
        if self.params.get("watch") == "true":
            return "watch"
        return "list" if _split(self.path)[1] is None else "get"


@dataclass(slots=True)
class Reply:
    code: int
    body: Json | bytes
    headers: dict[str, str] = field(default_factory=dict[str, str])


Fault = Callable[[Request], "Reply | None"]


class Hang(Exception):  # noqa: N818 - not an error
    """Raised by a fault: keep the connection open and never answer."""


class Drop(Exception):  # noqa: N818 - not an error
    """Raised by a fault: reset the connection without an answer."""


class ScriptedServer:
    """The server. Faults are tried in order before each request; the first reply counts."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {}
        self.version = 100
        self.compacted = 0
        self.log: list[tuple[int, str, str, Json]] = []
        self.faults: list[Fault] = []
        self.calls: Counter[str] = Counter()
        self.requests: list[Request] = []
        self.watching = 0  # open watches that are fed
        self.silent = False  # open watches get nothing and are not closed
        self.port = 0
        self._changed = asyncio.Condition()
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._watchers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Go away as a killed process does: sockets are reset."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._writers.clear()
        self._watchers.clear()
        self.watching = 0

    def drop_watches(self) -> None:
        for writer in list(self._watchers):
            writer.transport.abort()

    def compact(self) -> None:
        """Forget history: only watches from a later version are possible, open ones get a 410."""
        self.version += 1
        self.compacted = self.version
        self._note("COMPACTED", "", {})

    def fail(
        self,
        code: int,
        *,
        times: int = 1,
        verbs: tuple[str, ...] = (),
        headers: dict[str, str] | None = None,
        on: str = "",
    ) -> None:
        """Answer the next `times` requests of these verbs (all, if none) with a Status."""
        left = [times]

        def fault(request: Request) -> Reply | None:
            if left[0] and (not verbs or request.verb in verbs) and on in request.path:
                left[0] -= 1
                return refusal(code, headers=headers)
            return None

        self.faults.append(fault)

    # What a client would write, done behind its back.

    def put(self, collection: str, obj: Json) -> Json:
        """Create or replace an object, as some other client would."""
        meta = cast("Json", obj.setdefault("metadata", {}))
        known = self.objects.setdefault(collection, {}).get(_key(obj))
        self.version += 1
        old_meta = cast("Json", known["metadata"]) if known else {}
        meta.setdefault("uid", old_meta.get("uid") or str(uuid4()))
        meta["resourceVersion"] = str(self.version)
        self.objects[collection][_key(obj)] = obj
        self._note("MODIFIED" if known else "ADDED", collection, obj)
        return obj

    def remove(self, collection: str, key: str) -> None:
        obj = self.objects[collection].pop(key)
        self.version += 1
        gone = {**obj, "metadata": {**_meta(obj), "resourceVersion": str(self.version)}}
        self._note("DELETED", collection, gone)

    def versions(self, collection: str) -> dict[str, str]:
        """Key to resourceVersion of everything there is."""
        return {
            key: cast("str", _meta(obj)["resourceVersion"])
            for key, obj in self.objects.get(collection, {}).items()
        }

    def bookmark(self) -> None:
        self.version += 1
        self._note("BOOKMARK", "", {"metadata": {"resourceVersion": str(self.version)}})

    def _note(self, kind: str, collection: str, obj: Json) -> None:
        self.log.append((self.version, kind, collection, json.loads(json.dumps(obj))))
        task = asyncio.ensure_future(self._wake())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    # HTTP

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError, Drop):
                while True:
                    await self._serve(await _read(reader), writer)
        finally:
            self._tasks.discard(task)
            self._writers.discard(writer)
            self._watchers.discard(writer)
            writer.transport.abort()

    async def _serve(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.calls[request.verb] += 1
        self.requests.append(request)
        try:
            reply = next((r for fault in self.faults if (r := fault(request))), None)
        except Hang:
            await asyncio.get_running_loop().create_future()
            return
        if reply is None and request.verb == "watch":
            reply = await self._watch(request, writer)
        await _send(writer, reply or self._answer(request))

    def _answer(self, request: Request) -> Reply:
        handlers: dict[str, Callable[[Request], Reply]] = {
            "get": self._get,
            "list": self._list,
            "post": self._create,
            "patch": self._patch,
            "put": self._replace,
            "delete": self._delete,
        }
        return handlers[request.verb](request)

    def _get(self, request: Request) -> Reply:
        collection, key = _split(request.path)
        obj = self.objects.get(collection, {}).get(key or "")
        return Reply(200, obj) if obj else refusal(404)

    def _list(self, request: Request) -> Reply:
        collection, _ = _split(request.path)
        found = self.objects.get(collection, {})
        items = [obj for key, obj in sorted(found.items()) if _selected(obj, request.params)]
        start, limit = int(request.params.get("continue", "0")), int(request.params.get("limit", 0))
        meta: Json = {"resourceVersion": str(self.version)}
        if limit and start + limit < len(items):
            meta["continue"] = str(start + limit)
        end = start + limit if limit else len(items)
        return Reply(200, {"metadata": meta, "items": items[start:end]})

    def _create(self, request: Request) -> Reply:
        collection, _ = _split(request.path)
        if _key(request.body) in self.objects.get(collection, {}):
            return refusal(409, "AlreadyExists")
        return Reply(201, self.put(collection, request.body))

    def _patch(self, request: Request) -> Reply:
        collection, key = _split(request.path)
        known = self.objects.get(collection, {}).get(key or "")
        if "apply-patch" in request.headers.get("content-type", ""):
            known = known or {}
        elif known is None:
            return refusal(404)
        try:
            patched = cast("Json", _patched(known, request.body))
        except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException):
            return refusal(422, "Invalid")
        version = _meta(patched).get("resourceVersion")
        if version and version != _meta(known).get("resourceVersion"):
            return refusal(409, "Conflict")
        return Reply(200, self.put(collection, patched))

    def _replace(self, request: Request) -> Reply:
        collection, key = _split(request.path)
        if key not in self.objects.get(collection, {}):
            return refusal(404)
        return Reply(200, self.put(collection, request.body))

    def _delete(self, request: Request) -> Reply:
        collection, key = _split(request.path)
        obj = self.objects.get(collection, {}).get(key or "")
        if obj is None:
            return refusal(404)
        wanted = cast("Json", request.body.get("preconditions") or {})
        if any(_meta(obj).get(name) != value for name, value in wanted.items()):
            return refusal(409, "Conflict")
        if _meta(obj).get("finalizers"):
            return Reply(200, self.put(collection, obj))
        self.remove(collection, key or "")
        return Reply(200, {"kind": "Status", "status": "Success"})

    async def _watch(self, request: Request, writer: asyncio.StreamWriter) -> Reply | None:
        collection, _ = _split(request.path)
        seen = int(request.params.get("resourceVersion", "0"))
        if seen < self.compacted:
            return refusal(410, "Expired")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        self._watchers.add(writer)
        self.watching += 1
        try:
            async with asyncio.timeout(float(request.params["timeoutSeconds"])):
                await self._feed(collection, seen, request.params, writer)
        except TimeoutError:
            writer.write(b"0\r\n\r\n")
        finally:
            self.watching -= 1
            self._watchers.discard(writer)
        return Reply(0, b"")

    async def _feed(
        self, collection: str, seen: int, params: Mapping[str, str], writer: asyncio.StreamWriter
    ) -> None:
        while True:
            if seen < self.compacted and not self.silent:
                _chunk(writer, {"type": "ERROR", "object": _status(410, "Expired")})
                writer.write(b"0\r\n\r\n")
                return
            for version, kind, where, obj in self.log if not self.silent else []:
                if version <= seen:
                    continue
                seen = version
                if kind == "BOOKMARK" or (where == collection and _selected(obj, params)):
                    _chunk(writer, {"type": kind, "object": obj})
            await writer.drain()
            async with self._changed:
                await self._changed.wait()


def bad_token(good: str) -> Fault:
    """A fault that answers 401 to every other token."""

    def fault(request: Request) -> Reply | None:
        if request.headers.get("authorization") == f"Bearer {good}":
            return None
        return refusal(401, "Unauthorized")

    return fault


def refusal(code: int, reason: str = "", headers: dict[str, str] | None = None) -> Reply:
    return Reply(code, _status(code, reason), headers or {})


async def eventually(
    true: Callable[[], bool] | Callable[[], Coroutine[None, None, bool]], *, seconds: float = 10
) -> None:
    """Wait until `true()`, by looking again; fails after `seconds`."""
    pause = Pause(0.005, longest=0.05)
    async with asyncio.timeout(seconds):
        while True:
            found = true()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await pause()


def _status(code: int, reason: str) -> Json:
    return {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f"scripted {code}",
    }


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    pairs = (line.partition(":") for line in head[1:] if line)
    headers = {name.lower(): value.strip() for name, _, value in pairs}
    length = int(headers.get("content-length", "0"))
    body = json.loads(await reader.readexactly(length)) if length else {}
    url = urlsplit(target)
    return Request(method, unquote(url.path), dict(parse_qsl(url.query)), headers, body)


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    if not reply.code:
        return
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    headers = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    lines = [f"{name}: {value}" for name, value in {**headers, **reply.headers}.items()]
    writer.write("\r\n".join([f"HTTP/1.1 {reply.code} X", *lines, "", ""]).encode() + body)
    await writer.drain()


def _chunk(writer: asyncio.StreamWriter, frame: Json) -> None:
    data = json.dumps(frame).encode() + b"\n"
    writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")


def _split(path: str) -> tuple[str, str | None]:
    """Collection (plural) and key of a path; the subresource is left out."""
    parts = path.strip("/").split("/")[2 if path.startswith("/api/") else 3 :]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1] + "/", parts[2:]
    return parts[0], (namespace + parts[1] if len(parts) > 1 else None)


def _meta(obj: Json) -> Json:
    return cast("Json", obj.get("metadata") or {})


def _key(obj: Json) -> str:
    meta = _meta(obj)
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])


def _selected(obj: Json, params: Mapping[str, str]) -> bool:
    field_, label = params.get("fieldSelector", ""), params.get("labelSelector", "")
    labels = cast("Json", _meta(obj).get("labels") or {})
    name, _, value = label.partition("=")
    by_field = not field_ or field_ == f"metadata.name={_meta(obj)['name']}"
    return by_field and (not label or labels.get(name) == value)


def _patched(obj: Json, patch: object) -> object:
    if isinstance(patch, list):
        return jsonpatch.apply_patch(obj, patch)
    return _merge(obj, patch)


def _merge(target: object, patch: object) -> object:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), value)
    return merged
