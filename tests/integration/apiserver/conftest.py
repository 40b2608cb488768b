"""A real embedded server, in this process or as one of its own, and a plain HTTPS client for it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
import pytest_asyncio

from hypercobalt import pki
from hypercobalt.api import crd
from hypercobalt.apiserver.server import ServerOptions, serve

TOKENS = """\
secret-admin,admin,1,"system:masters"
secret-other,other,3,"system:masters"
secret-viewer,viewer,2
"""
READY_SECONDS = 60.0
MANIFESTS = tuple(msgspec.json.encode(crd.manifest(kind)) for kind in crd.KINDS)


class Client(httpx2.AsyncClient):
    """Speaks JSON to one server as its administrator."""

    def __init__(self, url: str, token: str = "secret-admin") -> None:  # noqa: S107
        super().__init__(
            base_url=url,
            verify=no_check(),
            headers={"authorization": f"Bearer {token}"} if token else {},
            timeout=10,
        )

    async def patch_as(self, kind: str, path: str, body: object, **query: str) -> httpx2.Response:
        headers = {"content-type": f"application/{kind}"}
        return await self.patch(
            path, content=msgspec.json.encode(body), headers=headers, params=query
        )

    async def until_gone(self, path: str) -> None:
        """Wait until an object has been deleted for good."""
        async with asyncio.timeout(10):
            while (await self.get(path)).status_code != 404:
                pass  # each turn is a request

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


def no_check() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # the default one reads many files
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def token_file(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "tokens.csv"
    path.write_text(TOKENS)
    return path


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Certificates that every server of this session starts with: making them takes a second."""
    directory = tmp_path_factory.mktemp("certificates")
    pki.prepare(directory, "127.0.0.1")
    return directory


@pytest.fixture
def options(tmp_path: Path, certificates: Path) -> ServerOptions:
    """A server with nothing in it but our kinds."""
    return fresh(tmp_path, certificates)


def fresh(directory: Path, certificates: Path) -> ServerOptions:
    shutil.copytree(certificates, directory / "data" / "pki")
    return ServerOptions(
        directory / "data",
        port=0,
        token_auth_file=token_file(directory),
        manifests=MANIFESTS,
    )


@pytest.fixture
async def api(options: ServerOptions) -> AsyncIterator[Client]:
    """A client of a fresh server in this process."""
    async with serve(options) as server, Client(server.url) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(
    tmp_path_factory: pytest.TempPathFactory, certificates: Path
) -> AsyncIterator[Client]:
    """A client of one server for a whole module, whose tests run in the module's loop."""
    options = fresh(tmp_path_factory.mktemp("shared"), certificates)
    async with serve(options) as server, Client(server.url) as client:
        yield client


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 12 MiB, where we may mount one; else the test is skipped."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(place)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("mounting a small tmpfs needs root")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


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


def resident_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS:"))
    return int(line.split()[1]) / 1024
