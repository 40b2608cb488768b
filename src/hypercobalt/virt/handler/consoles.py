"""Serial consoles of the node's guests, served to people with the right to them.

A person has one seat at a guest's port; whoever comes later gets it. An Event on the VMI records
each session before its first byte. Who may open one is decided by the API server at each opening,
by the right to `virtualmachineinstances/console`.

Decision: docs/decisions/0082-a-console-is-a-relay-with-one-seat.md.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from hypercobalt.agent.diagnostics.record import Records
from hypercobalt.api.kubevirt.console import CONSOLE_PATH, CONSOLE_RIGHT, PROTOCOL
from hypercobalt.api.kubevirt.names import NODE_NAME, VMIPhase
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.errors import HypercobaltError
from hypercobalt.logs import get_logger
from hypercobalt.runtime import Kube
from hypercobalt.runtime.relay import Seats, carry
from hypercobalt.runtime.resource_guard import ResourceGuard
from hypercobalt.runtime.routes import Answer, Request, Requester, Route, Upgrade, text
from hypercobalt.runtime.websocket import CloseCode, upgraded
from hypercobalt.runtime.websocket_bytes import WebSocketBytes
from hypercobalt.virt.handler.console_socket import serial_port
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.wire.client import LauncherError

log = get_logger(__name__)

OPENED: Final = "ConsoleOpened"
"""Reason of the Event of a session."""


@dataclass(frozen=True, slots=True)
class GuestPlace:
    """Where a guest runs: UIDs of its pod and its VMI."""

    pod: str
    vmi: str


def place_of(vmi: VirtualMachineInstance, node: str) -> GuestPlace | str:
    """Where the guest of a VMI runs; a text for people if that is not on this node. Pure."""
    what = f"VirtualMachineInstance {vmi.metadata.namespace}/{vmi.metadata.name}"
    status = vmi.status
    if status.phase != VMIPhase.RUNNING:
        shown = status.phase or VMIPhase.PENDING
        return f"{what} is {shown}, not Running: its console is there while its guest runs"
    if {vmi.metadata.labels.get(NODE_NAME, ""), status.nodeName} - {""} != {node}:
        return f"{what} is not on node {node}, but on {status.nodeName or 'none'}; try again"
    pods = [uid for uid, where in status.activePods.items() if where == node]
    if len(pods) != 1:
        return f"{what} has {len(pods)} pods on node {node} in status.activePods, not one"
    return GuestPlace(pods[0], vmi.metadata.uid)


class Consoles:
    """Serves consoles of one node.

    Args:
        kube: reads VMIs.
        node: of the handler.
        places: where launchers are.
        guard: admits people.
        records: writes the Events.
    """

    def __init__(
        self, kube: Kube, node: str, places: LauncherPlaces, guard: ResourceGuard, records: Records
    ) -> None:
        self._kube, self._node, self._places = kube, node, places
        self._guard, self._records, self._seats = guard, records, Seats()
        self.route = Route(CONSOLE_PATH, self._console, access=CONSOLE_RIGHT, seconds=15.0)

    async def admits(self, request: Request, route: Route | None) -> Requester | Answer:
        """The person who may have a page, or the refusal."""
        found = await self._guard.admits(request, route)
        if isinstance(found, Answer) and (request.certificate or request.token):
            self._records.refused(None, f"{request.address} got {found.status}: {request.path}")
        return found

    async def _console(self, request: Request) -> Answer | Upgrade:
        names, who = self.route.named(request.path), request.requester
        if names is None or who is None:
            return text(404, "there is no such console")
        try:
            vmi = await self._kube.get(VirtualMachineInstance, names["name"], names["namespace"])
        except HypercobaltError as error:
            return text(503, f"the API server does not give the VirtualMachineInstance: {error}")
        if vmi is None:
            key = f"{names['namespace']}/{names['name']}"
            return text(404, f"there is no VirtualMachineInstance {key}")
        place = place_of(vmi, self._node)
        if isinstance(place, str):
            return text(409, place)
        head = upgraded(request, PROTOCOL)
        if isinstance(head, Answer):
            return head
        try:
            await self._records.store(vmi, OPENED, f"user {who.user} opened the serial console")
        except HypercobaltError as error:
            return text(503, f"the Event of this session cannot be stored: {error}")

        async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            person = WebSocketBytes(reader, writer, is_server=True)
            await self._session(place, person, who.user)

        return Upgrade(head, run)

    async def _session(self, place: GuestPlace, person: WebSocketBytes, who: str) -> None:
        async with self._seats.take(place.vmi, who) as seat:
            try:
                async with serial_port(self._places, place.pod, place.vmi) as port:
                    end = await carry(port, person, seat)
            except LauncherError as error:
                log.warning("console_not_opened", vmi=place.vmi, error=str(error))
                await person.close(CloseCode.GOING_AWAY, str(error))
                return
        log.info("console_closed", vmi=place.vmi, user=who, reason=end.value)
        await person.close(reason=end.value)
