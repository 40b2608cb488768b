from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from tests.unit.adapters.ovs.scripted import replies, served, silent

from hypercobalt.adapters.ovs.daemons import DaemonSocket, Process, version_of
from hypercobalt.adapters.ovs.host import HostSwitch
from hypercobalt.adapters.ovs.model import DaemonName, Paths
from hypercobalt.adapters.ovs.port import ProducerFault, SwitchError

STAT = "{pid} (ovs (v) d) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {ticks} 0 0"


def left_over(path: Path) -> None:
    """Leave a socket without a listener, as a killed daemon does."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(path))


async def process(daemon: DaemonSocket) -> Process:
    control, found = await daemon.connect()
    control.close()
    return found


async def fault(daemon: DaemonSocket) -> ProducerFault:
    with pytest.raises(SwitchError, match="ovs-vswitchd") as failed:
        await process(daemon)
    return failed.value.fault


def fake_proc(path: Path, ticks: int) -> Path:
    stat = path / "proc" / str(os.getpid()) / "stat"
    stat.parent.mkdir(parents=True)
    stat.write_text(STAT.format(pid=os.getpid(), ticks=ticks))
    return path / "proc"


async def test_the_process_that_accepts_is_found_beside_left_over_sockets(tmp_path: Path) -> None:
    left_over(tmp_path / "ovs-vswitchd.11.ctl")
    (tmp_path / "ovs-vswitchd.pid").write_text("11\n")
    (tmp_path / "ovs-vswitchd.x.ctl").touch()
    proc = fake_proc(tmp_path, 4711)
    async with served(tmp_path / "ovs-vswitchd.12.ctl", silent):
        found = await process(DaemonSocket("ovs-vswitchd", tmp_path, proc))
    assert found == Process(os.getpid(), 4711)


async def test_a_process_that_proc_does_not_show_has_no_start(tmp_path: Path) -> None:
    async with served(tmp_path / "ovs-vswitchd.12.ctl", silent):
        found = await process(DaemonSocket("ovs-vswitchd", tmp_path, tmp_path))
    assert found == Process(os.getpid(), None)


async def test_no_socket_and_left_over_ones_differ(tmp_path: Path) -> None:
    daemon = DaemonSocket("ovs-vswitchd", tmp_path)
    assert await fault(daemon) is ProducerFault.SOCKET_MISSING
    assert (
        await fault(DaemonSocket("ovs-vswitchd", tmp_path / "none")) is ProducerFault.SOCKET_MISSING
    )
    left_over(tmp_path / "ovs-vswitchd.11.ctl")
    (tmp_path / "ovs-vswitchd.pid").write_text("rubbish")
    assert await fault(daemon) is ProducerFault.CONNECTION_REFUSED


async def test_the_socket_of_another_daemon_does_not_count(tmp_path: Path) -> None:
    async with served(tmp_path / "ovsdb-server.12.ctl", silent):
        assert await fault(DaemonSocket("ovs-vswitchd", tmp_path)) is ProducerFault.SOCKET_MISSING


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("ovs-vswitchd (Open vSwitch) 3.1.0\n", "3.1.0"),
        ("ovsdb-server (Open vSwitch) 2.17.9\n", "2.17.9"),
        ("ovs-vswitchd (Open vSwitch) 3.5.1\nDPDK 24.11.1\n", "3.5.1"),
        ("ovn-controller 23.03.1\nOpen vSwitch Library 3.1.0\nSB DB Schema 20.27.0\n", "23.03.1"),
        ("", None),
        ("no version here", None),
    ],
)
def test_the_version_is_read(text: str, version: str | None) -> None:
    assert version_of(text) == version


@pytest.mark.parametrize(
    ("text", "version"),
    [("ovs-vswitchd (Open vSwitch) 3.1.0\\n", "3.1.0"), ("ovs-vswitchd (a vendor's) 9\\n", "")],
)
async def test_daemon_that_answers_lives_whatever_its_version_looks_like(
    tmp_path: Path, text: str, version: str
) -> None:
    answer = replies(f'{{"id":1,"result":"{text}","error":null}}'.encode())
    async with served(tmp_path / "ovs-vswitchd.7.ctl", answer):
        found = await HostSwitch(Paths(ovs=tmp_path, root=tmp_path)).daemon(DaemonName.VSWITCHD)
    assert found.version == version
