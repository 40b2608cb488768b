"""A launcher for real: its own libvirtd and a guest under TCG, as an unprivileged user."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.integration.virt.pod import WAIT, Pod, missing, pod, until

from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.virt.wire.client import (
    LauncherConnection,
    LauncherError,
    LauncherRefusedError,
    connect,
)
from hypercobalt.virt.wire.messages import (
    Delete,
    DomainInterface,
    DomainReport,
    GetDomain,
    Kill,
    LauncherCall,
    Pause,
    PausedBy,
    Reset,
    Shutdown,
    Sync,
    TapDevice,
    Unpause,
)
from hypercobalt.vmi.phases import LifeCycle, LifeReason

pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(180),
]
RUNNING, SHUTOFF = LifeCycle.RUNNING, LifeCycle.SHUTOFF


class Handler:
    """What virt-handler does with one launcher."""

    def __init__(self, connection: LauncherConnection) -> None:
        self.connection = connection
        self._reports = connection.reports()

    async def call(self, call: LauncherCall) -> DomainReport:
        found = await self.connection.call(call, deadline=WAIT)
        assert found is not None
        return found

    async def until(self, state: LifeCycle | None) -> DomainReport:
        """Reports until one has this state."""
        async with asyncio.timeout(WAIT):
            async for report in self._reports:
                if report.state is state:
                    return report
        raise EOFError(self.connection.closed.result())


@asynccontextmanager
async def handler(here: Pod) -> AsyncIterator[Handler]:
    await asyncio.to_thread(until, here.socket.exists, "the command socket")
    async with connect(here.socket, uid=LAUNCHER_USER) as connection:
        yield Handler(connection)


async def ended(here: Pod) -> int:
    """The pod's exit code; neither QEMU nor libvirtd is left then."""
    code = await asyncio.to_thread(here.wait)
    await asyncio.to_thread(until, lambda: not here.qemu(), "the end of QEMU")
    return code


async def answered(host: Handler) -> DomainReport | None:
    """The domain; None while libvirt is away."""
    try:
        return await host.call(GetDomain())
    except LauncherError:
        return None


@pytest.fixture(scope="module")
def cache() -> Iterator[str]:
    """A capability cache, made once as a host makes it."""
    with pod() as here:
        target = Path(here.paths.private, "warm")
        module = "hypercobalt.virt.launcher.warm"
        here.execute(sys.executable, "-m", module, str(target))
        assert here.wait() == 0, here.log
        assert {one.suffix for one in target.iterdir()} == {".xml"}
        yield str(target)


def times(directory: Path) -> dict[str, int]:
    """When the files of a directory were written last."""
    return {one.name: one.stat().st_mtime_ns for one in directory.iterdir()}


@pytest.fixture
def idle() -> Iterator[Pod]:
    with pod("idle") as here:
        yield here


async def test_guest_runs_is_driven_and_ends_when_it_does_not_obey(idle: Pod, cache: str) -> None:
    idle.start(cache=cache)
    async with handler(idle) as host:
        assert await host.until(None) == DomainReport()
        copies = Path(idle.paths.private, "libvirt/qemu/cache/capabilities")
        assert times(copies) == times(Path(cache)), "libvirt has made its cache again"
        await host.call(idle.sync())
        running = await host.until(RUNNING)
        assert (running.machine[:6], running.emulated) == ("pc-q35", True)
        (first,) = idle.qemu()
        assert idle.programs().keys() == {"python", "libvirtd", "qemu-system-x86"}
        assert idle.ports() == []

        assert (await host.call(idle.sync())).state is RUNNING
        assert (await host.call(Pause())).paused_by is PausedBy.USER
        assert (await host.call(idle.sync(phase="Running"))).state is LifeCycle.PAUSED
        assert (await host.call(Unpause())).state is RUNNING
        assert (await host.call(Reset())).state is RUNNING
        assert idle.qemu() == [first]

        asked = await host.call(Shutdown())
        assert (asked.state, asked.shutdown_since is not None) == (RUNNING, True)
        assert (await host.call(Shutdown())).shutdown_since == asked.shutdown_since
        assert (await host.call(Kill())).reason is LifeReason.DESTROYED
        for phase in ("Scheduled", "Running", "Failed"):
            assert (await host.call(idle.sync(phase=phase))).state is SHUTOFF
        assert (await host.call(Delete())).state is None
    assert await ended(idle) == 0


async def test_guest_has_the_devices_of_its_vmi(idle: Pod, cache: str) -> None:
    domain = {
        "machine": {"type": "q35"},
        "memory": {"guest": "32Mi"},
        "cpu": {"model": "host-model", "sockets": 2, "cores": 1, "threads": 1},
        "firmware": {"uuid": idle.uid},
        "devices": {
            "disks": [{"name": "root", "disk": {"bus": "virtio"}}, {"name": "data", "disk": {}}],
            "interfaces": [{"name": "default", "masquerade": {}}],
            "rng": {},
        },
    }
    volumes = [
        {"name": "root", "containerDisk": {"image": "lab/guest"}},
        {"name": "data", "emptyDisk": {"capacity": "64Mi"}},
    ]
    networks = [{"name": "default", "pod": {}}]
    made = idle.sync(domain=domain, volumes=volumes, networks=networks)
    idle.start(cache=cache)
    async with handler(idle) as host:
        tap = TapDevice("tap0", "02:00:00:00:00:01", 1450)
        await host.call(Sync(made.vmi, {"default": tap}, emulation=True))
        running = await host.until(RUNNING)
        assert running.interfaces == (DomainInterface("default", tap.mac, "tap0"),)
        sockets = Path(idle.paths.private, idle.uid)
        assert {one.name for one in sockets.iterdir()} == {"virt-serial0", "virt-vnc"}
        assert all(one.is_socket() for one in sockets.iterdir())
        assert Path(idle.paths.empty_disk("data")).exists()


async def test_guest_that_powers_off_ends_well_and_the_pod_waits_for_the_record(
    cache: str,
) -> None:
    with pod("poweroff") as here:
        here.start(cache=cache)
        async with handler(here) as host:
            await host.call(here.sync())
            await host.until(RUNNING)
            assert (await host.until(SHUTOFF)).reason is LifeReason.SHUTDOWN
        async with handler(here) as host:
            assert (await host.until(SHUTOFF)).reason is LifeReason.SHUTDOWN
            await host.call(Delete())
        assert await ended(here) == 0


async def test_panic_of_the_guest_is_distinguished_from_a_crash(cache: str) -> None:
    with pod("panic") as here:
        here.start(cache=cache)
        async with handler(here) as host:
            domain = {
                "machine": {"type": "q35"},
                "memory": {"guest": "32Mi"},
                "devices": {
                    "disks": [{"name": "root", "disk": {}}],
                    "panicDevices": [{"model": "isa"}],
                },
            }
            await host.call(here.sync(domain=domain))
            await host.until(RUNNING)
            assert (await host.until(SHUTOFF)).reason is LifeReason.PANICKED
            await host.call(Delete())
        assert await ended(here) == 0


async def test_guest_whose_disk_is_full_pauses_until_there_is_room(cache: str) -> None:
    with pod("flood-disk") as here:
        here.room = "512k"
        here.start(cache=cache)
        async with handler(here) as host:
            await host.call(here.sync())
            await host.until(RUNNING)
            assert (await host.until(LifeCycle.PAUSED)).paused_by is PausedBy.IO_ERROR
            await asyncio.to_thread(here.enlarge, "64m")
            assert (await host.call(here.sync(phase="Running"))).state is RUNNING
            await host.call(Kill())
            await host.call(Delete())
        assert await ended(here) == 0


@pytest.mark.parametrize("victim", ["launcher", "first"])
async def test_killed_launcher_leaves_no_qemu(idle: Pod, cache: str, victim: str) -> None:
    idle.start(cache=cache)
    async with handler(idle) as host:
        await host.call(idle.sync())
        assert len(idle.qemu()) == 1
        os.kill(getattr(idle, victim)(), signal.SIGKILL)
        assert await host.connection.closed
    assert await ended(idle) == (128 + signal.SIGKILL if victim == "launcher" else 1)
    assert not idle.processes("libvirtd")


async def test_killed_libvirtd_returns_and_qemu_that_dies_is_reported(
    idle: Pod, cache: str
) -> None:
    idle.start(cache=cache)
    async with handler(idle) as host:
        await host.call(idle.sync())
        await host.until(RUNNING)
        (qemu,) = idle.qemu()
        (daemon,) = idle.processes("libvirtd")
        os.kill(daemon, signal.SIGKILL)
        await asyncio.to_thread(
            until, lambda: idle.processes("libvirtd") not in ([], [daemon]), "another libvirtd"
        )
        async with asyncio.timeout(WAIT):
            while (found := await answered(host)) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert found.state is RUNNING
        assert idle.qemu() == [qemu]
        os.kill(qemu, signal.SIGKILL)
        assert (await host.until(SHUTOFF)).reason is LifeReason.CRASHED
        await host.call(Delete())
    assert await ended(idle) == 0


async def test_pod_that_must_end_is_reported_and_ends_by_itself_in_the_end(
    idle: Pod, cache: str
) -> None:
    idle.start(cache=cache, grace_seconds=2)
    async with handler(idle) as host:
        await host.call(idle.sync())
        await host.until(RUNNING)
        os.kill(idle.first(), signal.SIGTERM)
        while (report := await host.until(RUNNING)).marked_since is None:
            pass
        assert idle.qemu()
        assert (await host.until(SHUTOFF)).reason is LifeReason.DESTROYED
        assert report.shutdown_since is None
        await host.call(Delete())
    assert await ended(idle) == 0


async def test_pod_that_must_end_before_its_guest_ends_at_once(idle: Pod, cache: str) -> None:
    idle.start(cache=cache)
    async with handler(idle) as host:
        os.kill(idle.first(), signal.SIGTERM)
        assert await host.connection.closed
    assert await ended(idle) == 0


async def test_pod_without_a_guest_gives_up(idle: Pod, cache: str) -> None:
    idle.start(cache=cache, qemu_timeout_seconds=0.5)
    assert await ended(idle) == 1
    assert "no_domain_appeared" in idle.log


async def test_vmi_that_no_domain_can_be_made_of_is_refused_by_its_field(
    idle: Pod, cache: str
) -> None:
    image = Path(idle.paths.image(0), "disk/guest.qcow2")
    idle.start(cache=cache)
    async with handler(idle) as host:
        sound = image.read_bytes()
        image.write_bytes(sound[:24] + (1 << 50).to_bytes(8, "big") + sound[32:])
        with pytest.raises(LauncherRefusedError, match=r"spec\.volumes\[0\]: .*virtual size"):
            await host.call(idle.sync())
        image.unlink()
        image.symlink_to("/etc/passwd")
        with pytest.raises(LauncherRefusedError, match="leads out of its image"):
            await host.call(idle.sync())
        image.unlink()
        image.write_bytes(sound)
        with pytest.raises(LauncherRefusedError, match="emulation is off"):
            await host.connection.call(type(idle.sync())(idle.sync().vmi), deadline=WAIT)
        assert (await host.call(GetDomain())).state is None
        await host.call(idle.sync())
        assert (await host.until(RUNNING)).state is RUNNING


async def test_field_that_libvirt_would_drop_is_refused(idle: Pod, cache: str) -> None:
    """The granularity of discards, as libvirt 9 does not know it."""
    blocks = {"custom": {"logical": 512, "physical": 512, "discardGranularity": 4096}}
    domain = {
        "memory": {"guest": "32Mi"},
        "devices": {"disks": [{"name": "root", "disk": {"bus": "virtio"}, "blockSize": blocks}]},
    }
    idle.start(cache=cache)
    async with handler(idle) as host:
        with pytest.raises(LauncherRefusedError, match=r"spec\.domain: .* does not know"):
            await host.call(idle.sync(domain=domain))
        assert (await host.call(GetDomain())).state is None


async def test_garbage_on_the_socket_leaves_the_guest_alone(idle: Pod, cache: str) -> None:
    idle.start(cache=cache)
    async with handler(idle) as host:
        await host.call(idle.sync())
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\2[]", b"\xff" * 9, b"\0\0\0\x04nope"):
            reader, writer = await asyncio.open_unix_connection(idle.socket)
            writer.write(garbage)
            writer.write_eof()
            await reader.read()
            while await reader.read(4096):
                pass
            writer.close()
        assert (await host.call(GetDomain())).state is RUNNING
