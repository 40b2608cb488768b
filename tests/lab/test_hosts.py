"""Hosts as a person and a test use them: real systemd, libvirtd and Open vSwitch."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest

from hypercobalt.lab.disk import LOCAL
from hypercobalt.lab.errors import CommandError, LabError
from hypercobalt.lab.host import EMULATORS, SHARED, HostPower
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.membership import add_host, remove_host
from tests.lab.conftest import BARE, TakeHosts, until
from tests.lab.kit.domains import document, make

pytestmark = pytest.mark.timeout(180)
SOON = timedelta(seconds=3)


async def test_three_hosts_boot_side_by_side_and_reach_each_other_by_name(hosts: TakeHosts) -> None:
    all_three = await hosts(3)

    for host in all_three:
        for other in all_three:
            await host.run("busybox", "ping", "-c", "1", "-W", "2", other.name)
            await host.run("virsh", "-c", f"qemu+tcp://{other.name}/system", "list")


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/machine-id",
        "cat /proc/sys/kernel/random/boot_id",
        "hostname",
        "ovs-vsctl get open_vswitch . external_ids:system-id",
        "virsh capabilities",  # begins with the host's UUID
    ],
)
async def test_hosts_have_distinct_identities(hosts: TakeHosts, command: str) -> None:
    first, second = await hosts(2)
    assert await first.run(*command.split()) != await second.run(*command.split())


async def test_nothing_of_the_machine_is_started_in_a_host(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)

    units = await host.run(
        *("systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend")
    )

    running = {line.split()[0] for line in units.splitlines()}
    assert running <= {
        "dbus.service",
        "hypercobalt-node-agent.service",
        "libvirtd.service",
        "ovn-controller.service",
        "ovs-vswitchd.service",
        "ovsdb-server.service",
        "polkit.service",
        "systemd-journald.service",
        "systemd-logind.service",
        "systemd-machined.service",
        "systemd-networkd.service",
        "virtlogd.service",
    }
    assert "0 loaded units" in await host.run("systemctl", "--failed")


async def test_a_host_sees_our_code_and_python(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    for path in host.binds:
        await host.run("test", "-d", str(path))
        with pytest.raises(CommandError, match="Read-only"):
            await host.run("touch", str(path / "written-by-a-host"))


async def test_hosts_share_one_directory_and_own_another(hosts: TakeHosts) -> None:
    first, second = await hosts(2)
    await first.run("tee", f"{SHARED}/disk", stdin="shared")
    await first.run("tee", f"{LOCAL}/disk", stdin="local")

    assert await second.run("cat", f"{SHARED}/disk") == "shared"
    with pytest.raises(CommandError, match="No such file"):
        await second.run("cat", f"{LOCAL}/disk")
    kind = await second.run("findmnt", "--noheadings", "--output=FSTYPE", SHARED)
    assert kind.strip() == "fuse.glusterfs"  # what libvirt takes for a network file system


@pytest.mark.parametrize("unit", ["libvirtd.socket", "ovs-vswitchd.service"])
async def test_a_host_names_the_service_that_it_lacks(hosts: TakeHosts, unit: str) -> None:
    (host,) = await hosts(1)
    await host.run("systemctl", "stop", unit)
    with pytest.raises(LabError, match=f"host {host.name}: .* is inactive"):
        await host.check_services()


async def test_a_failed_command_in_a_host_is_reported_with_its_output(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    with pytest.raises(CommandError, match=f"`false` in {host.name} failed with code 1"):
        await host.run("false")


async def test_a_command_that_hangs_is_killed_with_its_children(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)

    with pytest.raises(CommandError, match="not done in time"):
        await host.run("sh", "-c", "sleep 4711 & sleep 4711", within=timedelta(seconds=1))

    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in host.pids()]
    assert not [command for command in commands if b"4711" in command]


async def test_a_crash_ends_everything_at_once_and_the_disk_stays(
    lab: Lab, hosts: TakeHosts
) -> None:
    (host,) = await hosts(1)
    await host.run("tee", "/root/kept", stdin="kept")
    boot = await host.run("cat", "/proc/sys/kernel/random/boot_id")
    inside = set(host.pids())

    await host.crash()

    assert host.power is HostPower.OFF
    assert not [pid for pid in inside if _works(pid)]
    with pytest.raises(LabError, match="is off"):
        await host.run("true")

    await host.start(lab.addresses)

    assert await host.run("cat", "/root/kept") == "kept"
    assert await host.run("cat", "/proc/sys/kernel/random/boot_id") != boot


async def test_a_frozen_host_does_nothing_until_it_is_thawed(hosts: TakeHosts) -> None:
    first, second = await hosts(2)
    ticker = ("sh", "-c", "while :; do date +%s%N >/run/tick; sleep 0.01; done")
    ticking = asyncio.create_task(first.run(*ticker))
    await until(lambda: first.run("cat", "/run/tick"))

    await first.freeze()
    assert first.power == "frozen"
    tick = Path(f"/proc/{first.leader_pid}/root/run/tick")
    seen = tick.read_text()
    with pytest.raises(CommandError):
        await second.run(
            *("virsh", "-c", f"qemu+tcp://{first.name}/system", "list"), within=timedelta(seconds=1)
        )
    assert tick.read_text() == seen

    await first.thaw()
    assert first.power == "running"
    await second.run("virsh", "-c", f"qemu+tcp://{first.name}/system", "list")
    assert await first.run("cat", "/run/tick") != seen
    ticking.cancel()


async def test_an_orderly_shutdown_waits_for_a_delay_inhibitor(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    # The inhibitor ends, and so lets go, when it has received the shutdown signal.
    script = (
        "dbus-monitor --system \"type='signal',member='PrepareForShutdown'\" | "
        "{ grep -m1 'boolean true' >/root/signals && pkill dbus-monitor; }"
    )
    inhibit = ("systemd-inhibit", "--what=shutdown", "--mode=delay", "sh", "-c", script)
    holding = asyncio.create_task(host.run(*inhibit))
    await until(lambda: host.run("sh", "-c", "systemd-inhibit --list | grep -q 'sh -c'"))

    await host.shutdown()

    holding.cancel()
    assert host.power is HostPower.OFF
    assert (host.disk.root / "root/signals").read_text().strip() == "boolean true"


async def test_the_journal_of_a_host_survives_its_crash(lab: Lab, hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    await host.run("logger", "--journald", stdin="MESSAGE=before the crash\n")
    written = ("journalctl", "--no-pager", "--grep=before the crash")  # of all boots; fails if none
    await until(lambda: host.run(*written, "--boot"))
    await host.run("journalctl", "--sync")
    await host.crash()
    await host.start(lab.addresses)
    await host.run(*written)


async def test_a_cut_cable_stops_traffic_until_it_is_restored(hosts: TakeHosts) -> None:
    first, second = await hosts(2)
    ping = ("busybox", "ping", "-c", "1", "-W", "1", first.name)

    await first.wire.cut()
    assert first.wire.is_cut
    with pytest.raises(CommandError):
        await second.run(*ping)

    await first.wire.restore()
    await until(lambda: second.run(*ping))


@pytest.mark.timed
async def test_a_slow_cable_adds_its_delay_each_way_until_it_is_restored(hosts: TakeHosts) -> None:
    first, second = await hosts(2)

    async def round_trip_ms() -> float:
        ping = ("busybox", "ping", "-c", "3", "-A", "-W", "2", first.name)
        summary = (await second.run(*ping)).splitlines()[-1]
        return float(summary.split("=")[1].split("/")[0])  # the least: others may be busy

    await first.wire.worsen(delay=timedelta(milliseconds=40))
    assert 80 <= await round_trip_ms() < 120
    # More than fits one frame, so that checksums and segments are left to the cable.
    await second.run("sh", "-c", f"virsh -c qemu+tcp://{first.name}/system capabilities >/dev/null")

    await first.wire.restore()
    assert await round_trip_ms() < 40
    assert first.wire.is_whole


@pytest.mark.timed
async def test_a_lossy_cable_loses_its_share(hosts: TakeHosts) -> None:
    first, second = await hosts(2)
    await second.run("busybox", "ping", "-c", "1", "-W", "2", first.name)  # now it has the MAC
    await first.wire.worsen(loss_percent=50)
    ping = f"busybox ping -c 200 -i 0.01 -W 1 {first.name} || true"
    summary = await second.run("sh", "-c", ping)
    lost = int(summary.split("% packet loss")[0].split()[-1])
    assert 60 <= lost <= 90  # half of what goes, half of what comes back: 75 %
    await first.wire.worsen(loss_percent=100)
    with pytest.raises(CommandError):
        await second.run("busybox", "ping", "-c", "2", "-W", "1", first.name)


@pytest.mark.parametrize(("delay_ms", "loss"), [(-1, 0), (10_001, 0), (0, -0.1), (0, 100.1)])
async def test_an_impossible_cable_is_refused(
    hosts: TakeHosts, delay_ms: float, loss: float
) -> None:
    (host,) = await hosts(1)
    with pytest.raises(LabError, match="a cable's delay is 0 to 10000 ms"):
        await host.wire.worsen(delay=timedelta(milliseconds=delay_ms), loss_percent=loss)
    assert host.wire.is_whole


async def test_a_host_needs_less_than_150_mib(hosts: TakeHosts) -> None:
    for host in await hosts(3):
        assert host.memory_bytes() < 150 * 2**20


async def test_an_added_host_is_known_to_the_others_and_a_removed_one_is_gone(
    lab: Lab, hosts: TakeHosts
) -> None:
    (first,) = await hosts(1)

    added = await add_host(lab, "spare")
    await first.run("busybox", "ping", "-c", "1", "-W", "2", "spare")
    await remove_host(lab, "spare")

    assert added.power is HostPower.OFF
    assert not added.disk.folder.exists()
    with pytest.raises(CommandError, match="bad address"):
        await first.run("busybox", "ping", "-c", "1", "-W", "2", "spare")
    with pytest.raises(LabError, match="'spare' is not in the lab"):
        lab.host("spare")


async def test_a_new_host_uses_the_emulator_cache_of_earlier_ones(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # the machine's may be written meanwhile
    names = ("first", "second", "third")
    try:
        first = await add_host(lab, names[0], setup=BARE)
        await first.run("virsh", "capabilities", within=timedelta(minutes=1))  # QEMU was probed
        await first.run("sh", "-c", f"sed -i s/alias=.pc./alias=\\'marked\\'/ {EMULATORS}/*.xml")

        for name in names[1:]:
            fresh = await add_host(lab, name, setup=BARE)
            assert ">marked</machine>" in await fresh.run("virsh", "capabilities")
    finally:
        for host in lab.hosts:
            if host.name in names:
                await remove_host(lab, host.name)


async def test_a_host_runs_libvirtd_on_one_cpu_and_guests_on_all(hosts: TakeHosts) -> None:
    (host,) = await hosts(1)
    await make(host, document("guest"), start=True)

    async def masks(pid_file: str) -> set[int]:
        """CPU masks of all threads of a process."""
        text = await host.run("sh", "-c", f"cat /proc/$(cat {pid_file})/task/*/status")
        lines = (line.split() for line in text.splitlines())
        return {int(line[1].replace(",", ""), 16) for line in lines if line[0] == "Cpus_allowed:"}

    mine = os.sched_getaffinity(0)
    assert await masks("/run/libvirtd.pid") == {1 << min(mine)}
    assert await masks("/run/libvirt/qemu/guest.pid") == {sum(1 << cpu for cpu in mine)}


def _works(pid: int) -> bool:
    """Whether a process is there, and more than an unreaped entry."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_a_shared_file_that_was_removed_can_be_made_again_at_once(lab: Lab) -> None:
    through, beside = lab.layout.shared / "a.log", lab.layout.shared_files / "a.log"
    for _ in range(10):
        with through.open("a"):
            beside.unlink()
        with through.open("a"):
            through.unlink()
