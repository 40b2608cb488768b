"""Captures on a real switch with the real tcpdump, which leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from tests.integration.ovs.daemons import Daemons
from tests.integration.ovs_agent.capturer import FAILED, NODE, REFUSED, Order

from hypercobalt.adapters.capture.pcap import HEADER
from hypercobalt.adapters.child import MARK

pytestmark = pytest.mark.skipif(
    shutil.which("tcpdump") is None and os.environ.get("CI") != "true",
    reason="needs tcpdump: make prepare",
)

BOUND = 30.0
OURS = "ether proto 0x88b5"
"""Frames of `send`; IPv6 has its own on a device that is switched on."""
ROOT = Path(__file__).resolve().parents[3]
IFACE = "c0ffee00-0000-4000-8000-000000000001"
_SEND = """
import socket
with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
    made.bind(("{device}", 0))
    for _ in range({count}):
        made.send(bytes.fromhex("{to}" "020000000001" "88b5") + bytes(200))
"""


class Capturer:
    """An agent's process with one capture."""

    def __init__(self, process: Process) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self.process, self.out, self.err = process, process.stdout, process.stderr

    async def listening(self) -> bytes:
        """Wait for the stream's header, which comes once tcpdump listens."""
        async with asyncio.timeout(BOUND):
            header = await self.out.read(HEADER)
        assert len(header) == HEADER, (await self.err.read()).decode()
        return header

    async def ended(self) -> tuple[int, bytes, str]:
        """Exit code, the rest of what it prints, and the error."""
        async with asyncio.timeout(BOUND):
            out, problem = await self.process.communicate()
        return self.process.returncode or 0, out, problem.decode()

    def left(self) -> list[str]:
        """Programs that this process has started, and that run."""
        return [name for pid in _pids() if (name := _child_of(pid, self.process.pid))]


def _pids() -> Iterable[int]:
    return [int(one) for one in os.listdir("/proc") if one.isdigit()]  # noqa: PTH208


def _child_of(pid: int, parent: int) -> str:
    with contextlib.suppress(OSError):
        if f"{MARK}={parent}\0".encode() in Path(f"/proc/{pid}/environ").read_bytes():
            return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


@asynccontextmanager
async def capturing(
    daemons: Daemons,
    *prefix: str,
    use: str = "capture",
    by_mirror: bool = False,
    **parameters: str,
) -> AsyncGenerator[Capturer]:
    order = Order(str(daemons.folder), parameters, use, by_mirror)
    module = (sys.executable, "-m", "tests.integration.ovs_agent.capturer")
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    argv = daemons.namespace.command(*prefix, *module, msgspec.json.encode(order).decode())
    process = await asyncio.create_subprocess_exec(*argv, stdout=PIPE, stderr=PIPE, env=env)
    capturer = Capturer(process)
    try:
        yield capturer
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
        await nothing_left(capturer)


def assert_unprivileged(capturer: Capturer) -> None:
    """Check that a process runs as the user nobody, with one capability."""
    (pid,) = (one for one in _pids() if _child_of(one, capturer.process.pid) == "tcpdump")
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":\t", 1) for line in status.splitlines())
    assert fields["Uid"].split() == fields["Gid"].split() == ["65534"] * 4
    assert not fields["Groups"].strip()
    capabilities = {fields[one] for one in ("CapPrm", "CapEff", "CapBnd", "CapAmb")}
    assert capabilities == {f"{1 << 13:016x}"}
    assert fields["NoNewPrivs"] == "1"


async def nothing_left(capturer: Capturer) -> None:
    """Wait until the kernel has ended all processes of a capture: the last ends a moment later."""
    async with asyncio.timeout(5):
        while capturer.left():  # noqa: ASYNC110 - no event reports processes of others
            await asyncio.sleep(0.02)


def send(daemons: Daemons, device: str, count: int, to: str = "ffffffffffff") -> None:
    script = _SEND.format(device=device, count=count, to=to)
    daemons.namespace.run(sys.executable, "-c", script)


def read(stream: bytes, *options: str) -> list[str]:
    """What tcpdump makes of a capture, a line for each packet."""
    done = subprocess.run(
        ["tcpdump", "-n", "-e", *options, "-r", "-"],
        input=stream,
        capture_output=True,
        check=True,
        timeout=BOUND,
    )
    return done.stdout.decode().splitlines()


@pytest.fixture
def ports(daemons: Daemons) -> Daemons:
    """An instance's port `p0`, whose guest is `q0`, and an uplink `p1`."""
    daemons.add_link("p0", "q0")
    daemons.add_link("p1", "q1")
    bridge = ("set", "bridge", "br-int", "datapath_type=netdev")
    iface = ("set", "interface", "p0", f"external_ids:iface-id={IFACE}")
    added = ("add-port", "br-int", "p0", "--", *iface, "--", "add-port", "br-int", "p1")
    daemons.vsctl("add-br", "br-int", "--", *bridge, "--", *added)
    return daemons


async def test_packets_of_a_port_are_a_file_that_tcpdump_reads(ports: Daemons) -> None:
    async with capturing(ports, port=IFACE, packets="3", filter=OURS) as capturer:
        header = await capturer.listening()
        assert capturer.left() == ["timeout", "tcpdump"]
        assert_unprivileged(capturer)
        # To another guest's address: the device is not promiscuous, and the frame is there.
        send(ports, "q0", 5, to="02000000ffff")
        code, out, problem = await capturer.ended()
    assert (code, problem) == (0, "")
    lines = [line for line in read(header + out) if not line.startswith("\t")]
    assert len(lines) == 3
    assert all("02:00:00:00:00:01 > 02:00:00:00:ff:ff" in line for line in lines)
    assert len(out) == 3 * (16 + 96)  # snaplen, of frames of 214 bytes


async def test_a_capture_ends_after_its_time_without_a_packet(ports: Daemons) -> None:
    async with capturing(ports, port="p0", seconds="1", filter=OURS) as capturer:
        await capturer.listening()
        assert await capturer.ended() == (0, b"", "")


async def test_a_wrong_capture_is_refused_before_it_starts(ports: Daemons) -> None:
    async with capturing(ports, port="p0", filter="tcp port 80 and") as capturer:
        code, out, problem = await capturer.ended()
    assert (code, out) == (REFUSED, b"")
    assert "syntax error; see pcap-filter(7)" in problem


async def test_the_other_right_captures_an_uplink(ports: Daemons) -> None:
    async with capturing(
        ports, use="capture-uplink", port="p1", packets="1", filter=OURS
    ) as capturer:
        await capturer.listening()
        send(ports, "q1", 1)
        code, out, _ = await capturer.ended()
    assert (code, len(out)) == (0, 16 + 96)


async def test_a_device_that_goes_away_ends_the_capture_with_the_reason(ports: Daemons) -> None:
    async with capturing(ports, port="p0") as capturer:
        await capturer.listening()
        ports.namespace.run("ip", "link", "del", "p0")
        code, _, problem = await capturer.ended()
    assert code == FAILED
    assert "capture on p0 has ended early" in problem


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
async def test_an_agent_that_is_ended_leaves_no_process(
    ports: Daemons, how: signal.Signals
) -> None:
    async with capturing(ports, port="p0") as capturer:
        await capturer.listening()
        assert capturer.left() == ["timeout", "tcpdump"]
        capturer.process.send_signal(how)
        await capturer.ended()
        await nothing_left(capturer)


async def test_a_frozen_agent_keeps_no_capture_beyond_its_time(ports: Daemons) -> None:
    async with capturing(ports, port="p0", seconds="1") as capturer:
        await capturer.listening()
        capturer.process.send_signal(signal.SIGSTOP)
        async with asyncio.timeout(15):
            while "tcpdump" in capturer.left():  # noqa: ASYNC110
                await asyncio.sleep(0.05)


_CAPS = "net_raw,setuid,setgid,setpcap,kill"


@pytest.mark.parametrize(
    ("kept", "missing"),
    [(_CAPS, ""), (_CAPS.replace("net_raw,", ""), "CAP_NET_RAW"), ("net_raw", "CAP_KILL")],
)
async def test_five_capabilities_are_enough_and_needed(
    ports: Daemons, kept: str, missing: str
) -> None:
    # As in the chart's container: root of a few capabilities that no program gets back.
    bounded = ",".join(("-all", *(f"+{one}" for one in kept.split(","))))
    prefix = ("setpriv", f"--bounding-set={bounded}", "--inh-caps=-all", "--no-new-privs")
    async with capturing(ports, *prefix, port="p0") as capturer:
        if missing:
            code, _, problem = await capturer.ended()
            assert (code, missing in problem, "capture.enabled" in problem) == (FAILED, True, True)
        else:
            await capturer.listening()
            capturer.process.kill()
            await capturer.ended()
            await nothing_left(capturer)


def mirrors(daemons: Daemons) -> list[str]:
    """Mirrors, and ports of the bridge that are not the tests'."""
    ports = set(daemons.vsctl("list-ports", "br-int").split()) - {"p0", "p1", "vhu1"}
    found = daemons.vsctl("--bare", "--columns=name", "list", "mirror").split()
    return sorted({*found, *ports})


@pytest.fixture
def vhost(ports: Daemons) -> Daemons:
    """A port `vhu1` whose device the kernel does not show, and a mirror of another program."""
    ports.vsctl("--no-wait", "set", "interface", "p0", "type=dpdkvhostuserclient")
    other = ("--id=@p1", "get", "port", "p1", "--", "--id=@m", "create", "mirror", "name=other")
    ports.vsctl(
        "--no-wait",
        *("--", *other, "select_all=true", "output_port=@p1"),
        *("--", "add", "bridge", "br-int", "mirrors", "@m"),
    )
    return ports


async def test_a_port_without_a_device_is_mirrored_while_it_is_captured(vhost: Daemons) -> None:
    async with capturing(vhost, by_mirror=True, port="p0", seconds="2") as capturer:
        await capturer.listening()
        made = [one for one in mirrors(vhost) if one != "other"]
        assert len(made) == 1
        assert made[0].startswith("hcm")
        tags = vhost.vsctl("get", "mirror", made[0], "external_ids")
        assert f"hypercobalt-capture={NODE}" in tags.replace('"', "")
        code, _, problem = await capturer.ended()
    assert (code, problem) == (0, "")
    assert mirrors(vhost) == ["other"]


async def test_a_killed_agent_leaves_no_mirror_after_the_next_start(vhost: Daemons) -> None:
    async with capturing(vhost, by_mirror=True, port="p0") as capturer:
        await capturer.listening()
        capturer.process.kill()
        await capturer.ended()
    assert len(mirrors(vhost)) == 2
    async with capturing(vhost) as sweeper:
        assert await sweeper.ended() == (0, b"", "")
    assert mirrors(vhost) == ["other"]
