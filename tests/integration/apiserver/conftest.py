"""A real embedded server, in this process or as one of its own, and a plain HTTPS client for it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest

from hypercobalt.api import crd
from hypercobalt.apiserver.server import Options, serve

TOKENS = 'secret-admin,admin,1,"system:masters"\nsecret-viewer,viewer,2\n'
READY_SECONDS = 20.0
MANIFESTS = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)


class Client(httpx2.AsyncClient):
    """Speaks JSON to one server as its administrator."""

    def __init__(self, url: str, token: str = "secret-admin") -> None:
        super().__init__(
            base_url=url,
            verify=_no_check(),
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=10,
        )

    async def patch_as(self, kind: str, path: str, body: object, **query: str) -> httpx2.Response:
        headers = {"content-type": f"application/{kind}"}
        return await self.patch(
            path, content=msgspec.json.encode(body), headers=headers, params=query
        )

    @contextlib.asynccontextmanager
    async def watching(self, path: str, **query: str) -> AsyncIterator[Watch]:
        params = {"watch": "true", **query}
        async with self.stream("GET", path, params=params, timeout=10) as answer:
            yield Watch(answer.status_code, answer.aiter_lines())


@dataclass
class Watch:
    status: int
    _lines: AsyncIterator[str]

    async def next(self) -> tuple[str, dict[str, Any]]:
        """The next event's type and object, within the client's deadline."""
        event = msgspec.json.decode(await anext(self._lines))
        return event["type"], event["object"]


def _no_check() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def token_file(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "tokens.csv"
    path.write_text(TOKENS)
    return path


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Client]:
    """A client of a fresh server in this process."""
    options = Options(
        tmp_path / "data", port=0, token_auth_file=token_file(tmp_path), manifests=MANIFESTS
    )
    async with serve(options) as server, Client(server.url) as client:
        yield client


@dataclass
class ServerProcess:
    """`cobalt apiserver` as a user runs it."""

    process: asyncio.subprocess.Process
    url: str
    kubeconfig: Path

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()

    async def terminate(self) -> int:
        self.process.terminate()
        return await asyncio.wait_for(self.process.wait(), READY_SECONDS)


StartServer = Callable[[Path], AbstractAsyncContextManager[ServerProcess]]


@contextlib.asynccontextmanager
async def start_server(data: Path) -> AsyncIterator[ServerProcess]:
    """Run `cobalt apiserver` on `data` until the block is left."""
    command = str(Path(sys.executable).with_name("cobalt"))
    arguments = ["apiserver", "--data", str(data), "--port", "0"]
    tokens = token_file(data.parent)
    process = await asyncio.create_subprocess_exec(
        command,
        *arguments,
        "--token-auth-file",
        str(tokens),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), READY_SECONDS)
        url = line.decode().removeprefix("serving on ").strip()
        yield ServerProcess(process, url, data / "kubeconfig")
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
