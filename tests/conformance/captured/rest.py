"""Requests as they are sent: with any user's token, any body, any patch."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx2
from tests.conformance.captured.virtual_time import SkippingLoop
from tests.conformance.real import TOKEN, Server
from tests.conformance.wire import Json

from hypercobalt.api.nesting import shallow

MEDIA = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a server has answered."""

    code: int
    text: str = field(repr=False)

    @property
    def body(self) -> Json:
        try:
            return json.loads(self.text)
        except RecursionError:
            return json.loads(shallow(self.text.encode()))


class Rest:
    """A client of one server for all users."""

    def __init__(self, server: Server) -> None:
        self._client = httpx2.AsyncClient(
            base_url=server.url, verify=server.ssl_context(), timeout=30, trust_env=False
        )
        self.admin = {"Authorization": f"Bearer {TOKEN}"}

    async def send(
        self,
        method: str,
        path: str,
        body: Json = None,
        *,
        patch: str = "merge",
        user: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; an administrator's if no user is given."""
        content = None if body is None else json.dumps(body).encode()
        return await self.send_text(method, path, content, patch=patch, user=user)

    async def send_text(
        self,
        method: str,
        path: str,
        content: bytes | None,
        *,
        patch: str = "merge",
        user: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a body as it is, which may be JSON of any depth."""
        media = MEDIA[patch] if method == "PATCH" else "application/json"
        headers = {**(self.admin if user is None else user), "Content-Type": media}
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SkippingLoop)
        with loop.request(writes=method != "GET"):
            answer = await self._client.request(method, path, content=content, headers=headers)
        return Answer(answer.status_code, answer.text)

    async def good(
        self, method: str, path: str, body: Json = None, *, patch: str = "merge"
    ) -> Json:
        """Send an administrator's request that must succeed, and return the object."""
        found = await self.send(method, path, body, patch=patch)
        assert found.code < 300, f"{method} {path}: {found.code}: {found.text}"
        return found.body

    async def first_events(self, path: str, user: Mapping[str, str], seconds: float) -> Answer:
        """Open a watch, and read for a moment of real time what it begins with."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SkippingLoop)
        read = ""
        with loop.request(writes=False):
            async with self._client.stream("GET", path, headers=user) as answer:
                if answer.status_code >= 300:
                    return Answer(answer.status_code, (await answer.aread()).decode())
                try:
                    async with asyncio.timeout(seconds):
                        async for chunk in answer.aiter_text():
                            read += chunk
                except TimeoutError:
                    pass
                return Answer(200, read)

    async def aclose(self) -> None:
        await self._client.aclose()
