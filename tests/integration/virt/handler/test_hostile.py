"""Launchers that were broken into: they cost their own VMI, and nobody else's."""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.virt.controller.world import Lab
from tests.integration.virt.handler.node import Node

from hypercobalt.virt.wire.frames import frame
from hypercobalt.virt.wire.messages import DomainMessage, DomainReport, encode
from hypercobalt.virt.wire.peers import PeerCredentials
from hypercobalt.vmi.phases import LifeCycle, LifeReason

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
REPORT = frame(encode(DomainMessage(DomainReport())))


async def garbage(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\x00\x00\x05hello")


async def oversized(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(struct.pack(">I", 1 << 31) + b"x" * 65536)


async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    while await reader.read(4096):
        pass


async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(REPORT[:-1])
    await silent(reader, writer)


async def answers_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(REPORT)
    await silent(reader, writer)


async def flood(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Report two states in turn, as fast as the handler reads."""
    states = [
        frame(encode(DomainMessage(DomainReport(LifeCycle.SHUTOFF, reason))))
        for reason in (LifeReason.UNKNOWN, LifeReason.MIGRATED)
    ]
    while not writer.is_closing():
        writer.write(b"".join(states) * 100)
        await writer.drain()


@asynccontextmanager
async def launcher(socket: Path, behaviour: Behaviour) -> AsyncIterator[None]:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behaviour(reader, writer)
        except OSError:
            return
        finally:
            writer.transport.abort()

    async with await asyncio.start_unix_server(connected, socket):
        yield


@pytest.mark.parametrize(
    "behaviour",
    [garbage, oversized, silent, slow, answers_nothing, flood],
    ids=lambda b: b.__name__,
)
async def test_broken_launcher_keeps_no_other_guest_from_its_life(
    lab: Lab, pods: Path, behaviour: Behaviour
) -> None:
    node = Node(lab, pods)
    async with node.handler():
        broken = [await node.handed_over(f"broken-{number}") for number in range(3)]
        pod = await node.handed_over()
        async with (
            launcher(node.socket(broken[0]), behaviour),
            launcher(node.socket(broken[1]), behaviour),
            launcher(node.socket(broken[2]), behaviour),
            node.launcher(pod) as good,
        ):
            await lab.phase("Running")
            await node.deletes()
            await lab.phase("Succeeded")
            await good.called("Delete")
            for number in range(3):
                vmi = await lab.vmi(f"broken-{number}")
                assert vmi is not None
                assert vmi.status.phase == "Scheduled"


async def test_link_in_the_place_of_a_socket_leads_nowhere(lab: Lab, pods: Path) -> None:
    """A pod whose socket, or whose directory of it, is a link to another pod's."""
    node = Node(lab, pods)
    async with node.handler():
        one, two = await node.handed_over("one"), await node.handed_over("two")
        pod = await node.handed_over()
        async with node.launcher(pod) as good:
            node.socket(one).symlink_to(node.socket(pod))
            node.directory(two.metadata.uid).rmdir()
            node.directory(two.metadata.uid).symlink_to(node.directory(pod.metadata.uid))
            await lab.phase("Running")
            assert good.names() == ["Sync"]
            assert len(good.server._connections) == 1
            for name in ("one", "two"):
                vmi = await lab.vmi(name)
                assert vmi is not None
                assert vmi.status.phase == "Scheduled"


async def test_socket_of_a_process_of_another_pod_is_not_used(lab: Lab, pods: Path) -> None:
    node = Node(lab, pods)
    asked = asyncio.Event()
    stranger = await node.handed_over("stranger")

    def check(pod_uid: str, peer: PeerCredentials) -> str:
        assert peer.pid == os.getpid()
        if pod_uid == stranger.metadata.uid:
            asked.set()
            return "process 7 is in no control group of the pod"
        return ""

    async with node.launcher(stranger) as false, node.handler(check):
        await asyncio.wait_for(asked.wait(), 30)
        pod = await node.handed_over()
        async with node.launcher(pod):
            await lab.phase("Running")
        assert false.calls == []
