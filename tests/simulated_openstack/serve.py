"""Runs a simulated cloud on a port of its own."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import uvicorn

from tests.openstack.client import Account
from tests.openstack.cloud import Cloud, Names
from tests.simulated_openstack.app import App
from tests.simulated_openstack.identity import REGION, Tokens
from tests.simulated_openstack.life import Life
from tests.simulated_openstack.model import Image, stable_uuid
from tests.simulated_openstack.script import Script
from tests.simulated_openstack.world import World

NAMES: Final = Names(
    flavor="tiny", large_flavor="large", empty="empty", guest="guest", network="net"
)
_STOP_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Simulation:
    """A simulated cloud that is served.

    Args:
        url: of its server.
        world: what is there; change it as a test needs, in the loop that serves.
        script: what goes wrong, and which calls were made.
        tokens: that were given out.
    """

    url: str
    world: World
    script: Script
    tokens: Tokens

    @property
    def auth_url(self) -> str:
        return f"{self.url}/identity/v3"

    @property
    def admin(self) -> Account:
        return Account(self.auth_url, "admin", "secret", "admin", REGION)

    @property
    def cloud(self) -> Cloud:
        """The cloud as tests see it, real or not."""

        async def crash(name: str) -> None:
            self.world.crash(name)

        async def restore(name: str) -> None:
            self.world.restore(name)

        async def add_image(name: str, _words: str) -> None:
            image = Image(stable_uuid("image", name), name)  # guests always print their names
            self.world.images[image.id] = image

        async def hinder(server: str) -> None:
            self.world.servers[server].memory_left = 2**60

        async def share_disks(shared: bool) -> None:
            self.world.shared = shared

        tester = Account(self.auth_url, "test", "secret", "test", REGION)
        hosts = tuple(self.world.hosts)
        return Cloud(
            self.admin, tester, NAMES, hosts, crash, restore, add_image, hinder, share_disks
        )


class _Server(uvicorn.Server):
    """A server that leaves signals to its caller."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()


@contextlib.asynccontextmanager
async def serve(
    world: World, *, port: int = 0, certificate: Path | None = None
) -> AsyncGenerator[Simulation]:
    """Serve a world on the loopback until the block is left.

    Args:
        world: what is there.
        port: 0 takes a free one.
        certificate: serve TLS with this one, a file with the key and the chain.
    """
    life, script, tokens = Life(world), Script(), Tokens(world)
    config = uvicorn.Config(
        App(world, life, script, tokens),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_certfile=certificate,
    )
    # IPPROTO_TCP, so that asyncio sets TCP_NODELAY.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)
        scheme = "http" if certificate is None else "https"
        url = f"{scheme}://127.0.0.1:{listener.getsockname()[1]}"
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            await server.ready.wait()
            yield Simulation(url, world, script, tokens)
        finally:
            server.should_exit = True
            await asyncio.wait({task})
            await life.close()
