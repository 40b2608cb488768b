"""`cobalt console`: the serial console of a guest, at the terminal.

By the API server where that serves consoles, else at the handler of the guest's node.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Final

from cyclopts import Parameter

from hypercobalt.api.core import Node
from hypercobalt.api.diagnostics import audience
from hypercobalt.api.kubevirt.console import (
    API_SERVICE,
    ENDPOINT,
    HANDLER,
    PROTOCOL,
    console_path,
    read_endpoint,
)
from hypercobalt.api.kubevirt.names import VMIPhase
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.cli import agents, api_command
from hypercobalt.cli.api_command import Kubeconfig
from hypercobalt.cli.terminal import Terminal
from hypercobalt.errors import HypercobaltError, InvalidRequestError, TransientError
from hypercobalt.runtime import Connection, Kube, SystemClock
from hypercobalt.runtime.client.api_websocket import api_websocket
from hypercobalt.runtime.client.auth import credentials_for
from hypercobalt.runtime.client.pinned import Pinned, RefusedError
from hypercobalt.runtime.client.pinned_websocket import websocket
from hypercobalt.runtime.relay import RelayEnd
from hypercobalt.runtime.websocket_bytes import WebSocketBytes
from hypercobalt.text import printable

_BEGINS_SECONDS: Final = 40.0
"""Longer than the handler takes with its reviews and its Event."""

Instance = Annotated[
    str,
    Parameter(help="NAMESPACE/NAME of a VirtualMachineInstance, or NAME in the kubeconfig's."),
]


def console(instance: Instance, /, *, kubeconfig: Kubeconfig = None) -> int:
    """Connect to the serial console of a guest; Ctrl-] leaves."""
    return api_command.run("console", _console(instance, kubeconfig))


@dataclass(frozen=True, slots=True)
class _Guest:
    """A guest that runs.

    Args:
        namespace: of the instance.
        name: of the instance.
        node: that it runs on.
    """

    namespace: str
    name: str
    node: str

    @property
    def key(self) -> str:
        """How people name it."""
        return f"{self.namespace}/{self.name}"

    @property
    def path(self) -> str:
        """Where its console is, at the API server and at its handler."""
        return console_path(self.namespace, self.name)


async def _console(instance: str, kubeconfig: Path | None) -> int:
    connection = api_command.connection(kubeconfig)
    namespace, _, name = instance.rpartition("/")
    async with AsyncExitStack() as opened:
        async with api_command.client(kubeconfig) as kube:
            guest = await _guest(kube, namespace or connection.namespace or "default", name)
            port = await _at_api_server(opened, connection, guest)
            if port is None:
                port = await _at_handler(opened, kube, connection, guest)
        terminal = Terminal(sys.stdin.fileno(), sys.stdout.fileno())
        leave = "; Ctrl-] leaves, Enter shows a prompt" if terminal.is_terminal else ""
        _tell(f"connected to {guest.key} on {guest.node}{leave}")
        with terminal.raw():
            await _copied(terminal, port)
    if terminal.left:
        _tell("")
        return 0
    return _ended(guest, port.reason)


async def _guest(kube: Kube, namespace: str, name: str) -> _Guest:
    """Find the guest.

    Raises:
        InvalidRequestError: there is no such VMI, or its guest does not run.
    """
    key = f"{namespace}/{name}"
    vmi = await kube.get(VirtualMachineInstance, name, namespace) if name else None
    if vmi is None:
        listed = (await kube.list(VirtualMachineInstance, namespace)).items
        there = api_command.there_are(one.metadata.name for one in listed)
        raise InvalidRequestError(
            f"there is no VirtualMachineInstance {key}; in namespace {namespace} {there}"
        )
    status = vmi.status
    if status.phase != VMIPhase.RUNNING:
        where = f" on {status.nodeName}" if status.nodeName else ""
        raise InvalidRequestError(
            f"VirtualMachineInstance {key} is {status.phase or VMIPhase.PENDING}{where}, not "
            f"Running: its console is there while its guest runs; `cobalt explain vmi/{key}` shows "
            "what it waits for"
        )
    return _Guest(namespace, name, status.nodeName)


async def _at_api_server(
    opened: AsyncExitStack, connection: Connection, guest: _Guest
) -> WebSocketBytes | None:
    """The console by the API server; None where that serves no consoles.

    Raises:
        HypercobaltError: it is refused, or the API server does not answer.
    """
    if connection.proxy is not None:  # no websocket of ours goes through one
        return None
    credential = await credentials_for(connection, SystemClock()).current()
    begun = api_websocket(connection, credential, guest.path, PROTOCOL, seconds=_BEGINS_SECONDS)
    try:
        return await opened.enter_async_context(begun)
    except RefusedError as error:
        if error.code == HTTPStatus.NOT_FOUND:
            return None
        hint = ""
        if error.code == HTTPStatus.SERVICE_UNAVAILABLE:
            hint = f"; `kubectl get apiservice {API_SERVICE}` shows whether virt-api answers"
        raise HypercobaltError(
            f"console of {guest.key} by the API server: {error}{hint}"
        ) from error


async def _at_handler(
    opened: AsyncExitStack, kube: Kube, connection: Connection, guest: _Guest
) -> WebSocketBytes:
    """The console at the handler of the guest's node.

    Raises:
        HypercobaltError: the node has no handler that serves consoles, or it does not answer.
    """
    node = await kube.get(Node, guest.node)
    endpoint = read_endpoint(node.metadata.annotations.get(ENDPOINT, "")) if node else None
    if endpoint is None:
        raise HypercobaltError(
            f"VirtualMachineInstance {guest.key} is Running on {guest.node}, whose Node has no "
            f"annotation {ENDPOINT}: start its virt-handler with --diagnostics-bind-address"
        )
    shown = await agents.credential(kube, connection, audience(HANDLER, guest.node))
    server = Pinned(endpoint.url, endpoint.certificateSHA256)
    begun = websocket(server, guest.path, shown, PROTOCOL, seconds=_BEGINS_SECONDS)
    with agents.explained(HANDLER, guest.node, endpoint.url):
        return await opened.enter_async_context(begun)


async def _copied(terminal: Terminal, port: WebSocketBytes) -> None:
    """Copy both ways until the person leaves or the console ends.

    The end of a pipe ends nothing: what the guest writes is still wanted.
    """
    shown = asyncio.create_task(_show(port, terminal), name="shown")
    typed = asyncio.create_task(_type(terminal, port), name="typed")
    try:
        await asyncio.wait({shown, typed}, return_when=asyncio.FIRST_COMPLETED)
        if not shown.done() and not terminal.left:
            await shown
        if shown.done():
            shown.result()
    except OSError as error:
        raise TransientError(f"the connection broke: {error}") from error
    finally:
        for task in (shown, typed):
            task.cancel()
        await asyncio.gather(shown, typed, return_exceptions=True)
        await port.close()


async def _show(port: WebSocketBytes, terminal: Terminal) -> None:
    while data := await port.read():
        await terminal.write(data)


async def _type(terminal: Terminal, port: WebSocketBytes) -> None:
    with suppress(OSError):  # the console has ended: `_show` finds out why
        while data := await terminal.read():
            await port.write(data)


def _ended(guest: _Guest, reason: str) -> int:
    """Report why the console ended without the person's doing.

    Raises:
        HypercobaltError: another took it over, or the handler has ended it.
    """
    if reason == RelayEnd.SOURCE_ENDED.value:
        _tell(f"the guest of {guest.key} has closed its console; `cobalt explain vmi/{guest.key}`")
        return 0
    if reason == RelayEnd.TAKEN_OVER.value:
        raise HypercobaltError(f"another person has taken over the console of {guest.key}")
    why = reason or "the virt-handler has stopped, or is cut off; the guest goes on: try again"
    raise HypercobaltError(f"the console of {guest.key} on {guest.node} ended: {why}")


def _tell(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
