"""A handler's consoles, served to people, and serial ports that the test plays."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from msgspec.structs import replace
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import DEADLINE, NODE, Lab
from tests.integration.virt.handler.node import Node, any_process

from hypercobalt.api import core
from hypercobalt.api.address import Address
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.kubevirt.console import ENDPOINT, PROTOCOL, console_path
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.errors import TransientError
from hypercobalt.runtime import Kube, Manager, Metrics, SystemClock, load_connection
from hypercobalt.runtime.client.auth import Credential, credentials_for
from hypercobalt.runtime.client.pinned import Pinned, RefusedError
from hypercobalt.runtime.client.pinned_websocket import websocket
from hypercobalt.runtime.tasks import first
from hypercobalt.runtime.websocket_bytes import WebSocketBytes
from hypercobalt.virt.handler.assembly import consoles
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.settings import VirtHandlerSettings


@dataclass
class Served:
    """Where consoles are served, and what a person shows there."""

    server: Pinned
    person: Credential

    def open(self, namespace: str, name: str) -> AbstractAsyncContextManager[WebSocketBytes]:
        path = console_path(namespace, name)
        return websocket(self.server, path, self.person, PROTOCOL, seconds=DEADLINE)

    async def trusts(self) -> bool:
        """Whether the server has read the client CA, and so answers this person."""
        try:
            async with self.open("none", "none"):
                raise AssertionError
        except RefusedError:
            return True
        except TransientError:
            return False


@asynccontextmanager
async def serving(lab: Lab, pods: Path, port: int = 0) -> AsyncIterator[Served]:
    connection, metrics = load_connection(lab.kubeconfig), Metrics()
    found: asyncio.Future[DiagnosticsEndpoint] = asyncio.get_running_loop().create_future()
    settings = VirtHandlerSettings(
        NODE, namespace=lab.namespace, pods=pods, diagnostics=Address("127.0.0.1", port)
    )
    places = LauncherPlaces(pods, os.getuid(), any_process)
    async with Kube(connection, field_manager="virt-handler", metrics=metrics) as kube:
        manager = Manager(kube, metrics=metrics)
        run = consoles(manager, settings, places, found.set_result)
        assert run is not None
        manager.add_service("consoles", lambda stop: first(stop.wait(), run()))
        task = asyncio.create_task(manager.run())
        try:
            async with asyncio.timeout(DEADLINE):
                endpoint = await found
            shown = await credentials_for(connection, SystemClock()).current()
            served = Served(Pinned(endpoint.url, endpoint.certificateSHA256), shown)
            await eventually(served.trusts, seconds=DEADLINE)
            yield served
        finally:
            manager.stop()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait_for(task, DEADLINE)


@asynccontextmanager
async def command(kubeconfig: Path, instance: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """`cobalt console`, with pipes in the place of a terminal."""
    made = await asyncio.create_subprocess_exec(
        *(Path(sys.executable).with_name("cobalt"), "console", instance),
        *("--kubeconfig", str(kubeconfig)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield made
    finally:
        if made.returncode is None:
            made.kill()
        await made.communicate()


async def running_guest(lab: Lab, pods: Path, name: str = "vm") -> Path:
    """A VMI that runs on the node; the directory of its serial port."""
    node = Node(lab, pods)
    pod = await node.handed_over(name, phase="Running")
    vmi = await lab.kube.get(VirtualMachineInstance, name, lab.namespace)
    assert vmi is not None
    place = node.directory(pod.metadata.uid).parent / "private" / vmi.metadata.uid
    place.mkdir(parents=True)
    return place


@contextmanager
def serial_port(place: Path) -> Iterator[socket.socket]:
    """The serial port of a guest; its path is too long for a Unix socket, but not from within."""
    at = os.open(place, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as port:
        port.bind(f"/proc/self/fd/{at}/virt-serial0")
        os.close(at)
        port.listen()
        port.settimeout(DEADLINE)
        yield port


async def node_is_at(lab: Lab, url: str, fingerprint: str, *addresses: str) -> None:
    """Have the Node publish a handler, and addresses of its own."""
    published = json.dumps({"url": url, "certificateSHA256": fingerprint})
    meta = ObjectMeta(name=NODE, annotations={ENDPOINT: published})
    if await lab.kube.get(core.Node, NODE) is None:
        await lab.kube.create(core.Node(metadata=ObjectMeta(name=NODE)))
    await lab.kube.modify(
        core.Node,
        NODE,
        lambda node: replace(node, metadata=replace(node.metadata, annotations=meta.annotations)),
    )
    status = core.NodeStatus(addresses=tuple(core.NodeAddress("InternalIP", a) for a in addresses))
    await lab.kube.modify(
        core.Node, NODE, lambda node: replace(node, status=status), subresource="status"
    )


async def talk(guest: socket.socket, person: asyncio.subprocess.Process) -> None:
    """Have a guest and a person send each other some bytes."""
    assert person.stdin is not None
    assert person.stdout is not None
    guest.sendall(b"login: ")
    async with asyncio.timeout(DEADLINE):
        assert await person.stdout.readexactly(7) == b"login: "
        person.stdin.write(b"root")
        assert await asyncio.to_thread(guest.recv, 16) == b"root"
