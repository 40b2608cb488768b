"""Consoles of a node's guests on the embedded API server: who is served, and what is recorded."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.integration.virt.controller.world import DEADLINE, Lab
from tests.integration.virt.handler.node import Node
from tests.integration.virt.handler.served import (
    command,
    node_is_at,
    running_guest,
    serial_port,
    serving,
    talk,
)

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.runtime.client.pinned import RefusedError

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
    pytest.mark.usefixtures("node_goes"),
]


async def test_person_reaches_the_port_of_a_guest_that_runs(lab: Lab, pods: Path) -> None:
    place = await running_guest(lab, pods)
    vmi = await lab.kube.get(VirtualMachineInstance, "vm", lab.namespace)
    assert vmi is not None
    with serial_port(place) as port:
        async with serving(lab, pods) as served:
            async with asyncio.timeout(DEADLINE), served.open(lab.namespace, "vm") as person:
                guest, _ = await asyncio.to_thread(port.accept)
                with guest:
                    guest.sendall(b"login: ")
                    assert await person.read() == b"login: "
                    await person.write(b"root")
                    assert await asyncio.to_thread(guest.recv, 16) == b"root"
                assert await person.read() == b""
                assert person.reason == "source-ended"
            with pytest.raises(RefusedError, match="there is no VirtualMachineInstance"):
                async with served.open(lab.namespace, "other"):
                    raise AssertionError
    assert "ConsoleOpened" in await Node(lab, pods).events(vmi)


async def test_command_goes_to_the_handler_where_the_api_server_serves_no_consoles(
    lab: Lab, pods: Path
) -> None:
    place = await running_guest(lab, pods)
    with serial_port(place) as port:
        async with serving(lab, pods) as served:
            await node_is_at(lab, served.server.url, served.server.fingerprint, "127.0.0.1")
            async with command(lab.kubeconfig, f"{lab.namespace}/vm") as person:
                guest, _ = await asyncio.to_thread(port.accept)
                with guest:
                    await talk(guest, person)
                _, words = await asyncio.wait_for(person.communicate(), DEADLINE)
                assert person.returncode == 0
                assert b"has closed its console" in words
