"""Play one scenario on both servers at once and compare what they answered.

A scenario is an async function that takes an `Api`. Every request that it makes is a step of the
transcript; values that later requests need (a resourceVersion, a continue token) are ordinary
variables taken from the answers. Each scenario gets its own namespace on each server, of the same
name, so that scenarios run in any order.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx2
import pytest
import yaml
from tests.conformance.differences import Difference, leaves, unaccepted
from tests.conformance.normalise import Normaliser
from tests.conformance.real import TOKEN, Server
from tests.conformance.wire import Json

JSON = "application/json"
YAML = "application/yaml"
PATCH_TYPES = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
PREFIXES = {
    **dict.fromkeys(("deployments", "daemonsets"), "/apis/apps/v1"),
    "leases": "/apis/coordination.k8s.io/v1",
    "poddisruptionbudgets": "/apis/policy/v1",
    **dict.fromkeys(("roles", "rolebindings"), "/apis/rbac.authorization.k8s.io/v1"),
    **dict.fromkeys(("gadgets", "trinkets"), "/apis/conformance.example.com/v1"),
}
COMPARED_HEADERS = ("content-type", "warning", "www-authenticate", "retry-after", "allow")
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
QUIET_SECONDS = 0.4  # after which nothing more is expected of a watch of the past
DEADLINE_SECONDS = 15.0  # of one request, and of a wait for something that is to come


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: Json

    def __getitem__(self, key: str) -> Json:
        return self.body[key]

    @property
    def version(self) -> str:
        """The resourceVersion of the object or list in the body."""
        return str(self.body["metadata"]["resourceVersion"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])


@dataclass(slots=True)
class Step:
    line: str
    seen: Json


@dataclass(slots=True)
class Watched:
    """The events of a running watch."""

    events: list[Json] = field(default_factory=list)
    grown: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, count: int) -> None:
        """Wait until `count` events were seen; a wait in vain shows in the transcript."""
        try:
            async with asyncio.timeout(DEADLINE_SECONDS / 3):
                while len(self.events) < count:
                    self.grown.clear()
                    await self.grown.wait()
        except TimeoutError:
            self.events.append(f"(waited in vain for event {count})")

    def add(self, event: Json) -> None:
        self.events.append(event)
        self.grown.set()


class Api:
    """One server as a scenario sees it; records every step."""

    def __init__(self, server: Server, client: httpx2.AsyncClient, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self.steps: list[Step] = []
        self._client = client

    def at(self, resource: str, name: str = "", *, ns: str | None = None) -> str:
        """Return the path of a namespaced resource, or of one object of it."""
        prefix = PREFIXES.get(resource, "/api/v1")
        path = f"{prefix}/namespaces/{ns or self.namespace}/{resource}"
        return f"{path}/{name}" if name else path

    async def get(self, path: str, *, accept: str = JSON, token: str = TOKEN) -> Answer:
        return await self.send("GET", path, accept=accept, token=token)

    async def post(
        self, path: str, body: Json, *, accept: str = JSON, token: str = TOKEN
    ) -> Answer:
        return await self.send("POST", path, body, accept=accept, token=token)

    async def put(self, path: str, body: Json, *, token: str = TOKEN) -> Answer:
        return await self.send("PUT", path, body, token=token)

    async def delete(self, path: str, options: Json = None) -> Answer:
        return await self.send("DELETE", path, options)

    async def patch(self, path: str, body: Json, kind: str = "merge") -> Answer:
        return await self.send("PATCH", path, body, content_type=PATCH_TYPES[kind])

    async def apply(
        self, path: str, body: Json, manager: str = "m1", *, force: bool = False, query: str = ""
    ) -> Answer:
        """Server-side apply as `manager`."""
        forced = "&force=true" if force else ""
        return await self.patch(f"{path}?fieldManager={manager}{forced}{query}", body, "apply")

    async def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        accept: str = JSON,
        content_type: str = JSON,
        token: str = TOKEN,
        acting: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Send one request and record it; `body` is bytes as they are, or anything JSON.

        `acting` are headers of impersonation, without their prefix.
        """
        answer = await self.request(
            method, path, body, accept=accept, content_type=content_type, token=token, acting=acting
        )
        headers = {
            name: answer.headers[name] for name in COMPARED_HEADERS if name in answer.headers
        }
        shown = "" if body is None else f" {_shown(body)}"
        kind = f" ({content_type})" if content_type != JSON else ""
        want = f" accepting {accept}" if accept != JSON else ""
        who = f" as {list(acting)}" if acting else ""
        seen = {"status": answer.status, "headers": headers, "body": answer.body}
        self.record(f"{method} {path}{want}{kind}{who}{shown}", seen)
        return answer

    async def request(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        accept: str = JSON,
        content_type: str = JSON,
        token: str = TOKEN,
        acting: Sequence[tuple[str, str]] = (),
    ) -> Answer:
        """Send one request without recording it; a token with a space is the whole header."""
        headers = [("Accept", accept), ("User-Agent", "suite/1")]
        if token:
            headers.append(("Authorization", token if " " in token else f"Bearer {token}"))
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        if content is not None:
            headers.append(("Content-Type", content_type))
        headers += [(f"Impersonate-{name}", value) for name, value in acting]
        response = await self._client.request(method, path, content=content, headers=headers)
        return Answer(response.status_code, _headers(response), _decoded(response))

    async def until(
        self, path: str, done: Callable[[Answer], bool], *, token: str = TOKEN
    ) -> Answer:
        """Repeat an unrecorded GET until `done`: for what happens in the background."""
        for _ in range(int(DEADLINE_SECONDS / 0.05)):
            answer = await self.request("GET", path, token=token)
            if done(answer):
                return answer
            await asyncio.sleep(0.05)
        self.record(f"wait for {path}", "(waited in vain)")
        return answer

    @asynccontextmanager
    async def watch(
        self, path: str, query: str = "", *, accept: str = JSON
    ) -> AsyncIterator[Watched]:
        """Watch in the background; the events seen until the block ends are one step."""
        watched, began = Watched(), asyncio.Event()
        line = f"WATCH {path}?watch=1{query}"
        task = asyncio.create_task(self._follow(line[6:], accept, watched, began), name="watch")
        try:
            await began.wait()
            yield watched
            await asyncio.sleep(0.1)  # an event too many would arrive about now
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            self.record(line, watched.events)

    async def watched(self, path: str, query: str = "", *, accept: str = JSON) -> list[Json]:
        """Watch until nothing comes any more: for what has already happened."""
        watched, line = Watched(), f"{path}?watch=1{query}"
        task = asyncio.create_task(self._follow(line, accept, watched, asyncio.Event()))
        while True:
            watched.grown.clear()
            quiet = asyncio.create_task(watched.grown.wait())
            done, _ = await asyncio.wait(
                {task, quiet}, timeout=QUIET_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            quiet.cancel()
            if task in done or not done:
                break
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        self.record(f"WATCH {line}", watched.events)
        return watched.events

    async def _follow(self, path: str, accept: str, seen: Watched, began: asyncio.Event) -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": accept, "User-Agent": "suite/1"}
        try:
            async with self._client.stream("GET", path, headers=headers) as response:
                if response.status_code != httpx2.codes.OK:
                    await response.aread()
                    seen.add({"status": response.status_code, "body": _decoded(response)})
                    return
                began.set()
                async for line in response.aiter_lines():
                    event = json.loads(line)
                    if not _is_progress(event):
                        seen.add(event)
        finally:
            began.set()

    def record(self, line: str, seen: Json) -> None:
        self.steps.append(Step(line, seen))


def _headers(response: httpx2.Response) -> dict[str, str]:
    found = {name.lower(): value for name, value in response.headers.items()}
    warnings = response.headers.get_list("warning")
    if warnings:
        found["warning"] = "\n".join(sorted(warnings))
    return found


def _decoded(response: httpx2.Response) -> Json:
    if response.headers.get("content-type", "").startswith(YAML):
        return yaml.safe_load(response.content)
    try:
        return json.loads(response.content)
    except ValueError:
        return response.content.decode(errors="replace")


def _is_progress(event: Json) -> bool:
    """Whether it is a bookmark that a server may send or not, as it likes."""
    if not isinstance(event, dict) or event.get("type") != "BOOKMARK":
        return False
    return INITIAL_EVENTS_END not in event["object"].get("metadata", {}).get("annotations", {})


def _shown(body: Json) -> str:
    text = repr(body) if isinstance(body, bytes) else json.dumps(body)
    return text if len(text) <= 160 else f"{text[:160]}…"


Script = Callable[[Api], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Pair:
    """Both servers, each with a client of this test's event loop."""

    real: tuple[Server, httpx2.AsyncClient]
    ours: tuple[Server, httpx2.AsyncClient]
    transcripts: Path | None = None

    async def play(self, script: Script, name: str) -> None:
        """Run `script` on both servers; fail with every difference that is not accepted."""
        real, ours = await asyncio.gather(
            *(_perform(script, name, *side) for side in (self.real, self.ours))
        )
        if self.transcripts is not None:
            _write_transcripts(self.transcripts, name, real, ours)
        found = unaccepted(compare(name, real, ours))
        if found:
            pytest.fail(report(found), pytrace=False)


async def _perform(
    script: Script, name: str, server: Server, client: httpx2.AsyncClient
) -> list[Step]:
    api = Api(server, client, namespace_for(name))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": api.namespace}}
    await api.request("POST", "/api/v1/namespaces", namespace)
    try:
        await script(api)
    except (KeyError, TypeError, IndexError, httpx2.HTTPError) as error:
        # the other server's transcript must still be compared up to here
        api.record("the script stopped", repr(error))
    return api.steps


def _write_transcripts(
    directory: Path, name: str, real: Sequence[Step], ours: Sequence[Step]
) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for side, steps in (("real", real), ("ours", ours)):
        normaliser = Normaliser()
        lines = [{normaliser.text(step.line): normaliser.value(step.seen)} for step in steps]
        (directory / f"{name}.{side}.json").write_text(json.dumps(lines, indent=1))


def namespace_for(name: str) -> str:
    digest = hashlib.sha256(name.encode()).hexdigest()[:6]
    words = re.sub(r"[^a-z0-9]+", "-", name.removeprefix("test_").lower()).strip("-")
    return f"{words[:40].strip('-')}-{digest}"


def compare(name: str, real: Sequence[Step], ours: Sequence[Step]) -> list[Difference]:
    found: list[Difference] = []
    normalisers = Normaliser(), Normaliser()
    for number in range(max(len(real), len(ours))):
        if number >= len(real) or number >= len(ours):
            missing = (real[number:] or ours[number:])[0].line
            lengths = f"{len(real)} steps", f"{len(ours)} steps"
            found.append(Difference(name, missing, "transcript", *lengths))
            break
        left, right = real[number], ours[number]
        line = normalisers[0].text(left.line)
        seen = normalisers[0].value(left.seen), normalisers[1].value(right.seen)
        if (left.line == "the script stopped") != (right.line == "the script stopped"):
            found.append(Difference(name, line, "transcript", left.line, right.line))
            break
        codes = _codes(left.seen, right.seen)
        found += (Difference(name, line, path, a, b, codes) for path, a, b in leaves(*seen))
    return found


def _codes(real: Json, ours: Json) -> tuple[int, int] | None:
    answered = isinstance(real, dict) and isinstance(ours, dict)
    if not answered or real.get("status") == ours.get("status"):
        return None
    return real.get("status"), ours.get("status")


def report(differences: Sequence[Difference]) -> str:
    lines = [f"{len(differences)} differences"]
    step = None
    for difference in differences:
        if difference.step != step:
            step = difference.step
            lines.append(step)
        lines.append(str(difference))
    return "\n".join(lines)


def scenario(script: Script) -> Callable[[Pair], Awaitable[None]]:
    """Make a test of an async function that takes an `Api`."""
    name: str = getattr(script, "__name__", "scenario")

    async def test(pair: Pair) -> None:
        await pair.play(script, name)

    test.__name__ = test.__qualname__ = name
    test.__doc__ = script.__doc__
    test.__module__ = script.__module__
    return test
