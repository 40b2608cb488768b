"""The node agent on real hosts through faults: each ends in the right status, nothing is lost."""

from __future__ import annotations

import asyncio
import time

import pytest

from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.lab import processes
from hypercobalt.lab.control import ROLE
from hypercobalt.lab.disk import LOCAL
from hypercobalt.lab.lab import Lab
from hypercobalt.runtime import Kube
from tests.lab.conftest import TakeHosts
from tests.lab.kit.agent import (
    SOCKETS,
    connection_is,
    instances,
    kill_agent,
    main_pid,
    ready,
    until,
    writes,
)
from tests.lab.kit.domains import LONG, document, make, undefine
from tests.lab.kit.migrations import migrations, moving, one_migration

pytestmark = pytest.mark.timeout(300)


async def test_odd_domains_break_nothing(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    numa = "<cpu><numa><cell id='0' cpus='0-1' memory='64' unit='MiB'/></numa></cpu>"
    pinned = "<cputune><vcpupin vcpu='0' cpuset='0'/><vcpupin vcpu='1' cpuset='0'/></cputune>"
    nodeset = "<numatune><memory mode='strict' nodeset='0'/></numatune>"
    huge = f"<description>{'x' * 200_000}</description>"
    odd = (
        document("no-cputune", vcpus=2),
        document("numa-without-pins", memory=64, vcpus=2, extra=numa),
        document("pinned", memory=64, vcpus=2, extra=nodeset + pinned),
        document("other-unit", memory=33_554_432, unit="b"),
        document("huge", extra=huge),
        document("ugly &lt;&amp;\u2713"),
    )
    await make(host, *odd, start=False)

    stored = await until(api, host, instances(len(odd)))

    status = stored.status
    assert connection_is("True")(stored)
    assert {instance.name for instance in status.instances} >= {"ugly <&\u2713", "huge"}
    assert status.allocation["cpu"].value == 9
    assert status.allocation["memory"].value == (16 + 64 + 64 + 32 + 16 + 16) * 2**20
    (cell,) = status.cells
    assert cell.allocation == status.allocation


@pytest.mark.timed
async def test_200_domains_are_all_reported(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    await make(host, *(document(f"many-{n}") for n in range(200)), start=False)
    stored = await until(api, host, instances(200))
    assert len({instance.id for instance in stored.status.instances}) == 200

    await undefine(host, "many-7")
    await until(api, host, instances(199), deadline=2)


@pytest.mark.timed
@pytest.mark.parametrize(("how", "count", "dying"), [("KILL", 50, 5), ("TERM", 10, 3)])
async def test_libvirtd_restarts_under_guests_while_some_die(
    nodes: TakeHosts, api: Kube, how: str, count: int, dying: int
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    await make(host, *(document(f"guest-{n}") for n in range(count)), start=True)
    await until(api, host, instances(count))
    await host.run("systemctl", "stop", *SOCKETS)
    await host.run("systemctl", "kill", f"--signal={how}", "libvirtd.service")
    await host.run("systemctl", "stop", "libvirtd.service")

    away = await until(api, host, connection_is("False"), deadline=1)
    assert away.status.numInstances == count  # the last that is known
    await until(api, host, connection_is("False", "LibVirtServiceNotRunning"), deadline=1)
    for number in range(dying):
        await host.run("pkill", "-KILL", "-f", f"guest=guest-{number},")
    await host.run("systemctl", "start", *SOCKETS, "libvirtd.service")

    await until(api, host, connection_is("True"), deadline=2)
    back = await until(api, host, instances(count - dying), deadline=5)
    names = {instance.name for instance in back.status.instances}
    assert names == {f"guest-{n}" for n in range(dying, count)}


@pytest.mark.timed
async def test_a_hung_libvirtd_is_reported_and_so_is_its_return(
    nodes: TakeHosts, api: Kube
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    await make(host, document("guest"), start=True)
    await until(api, host, instances(1))
    await host.run("systemctl", "kill", "--signal=STOP", "libvirtd.service")
    try:
        away = await until(api, host, connection_is("False"), deadline=3)
    finally:
        await host.run("systemctl", "kill", "--signal=CONT", "libvirtd.service")

    assert away.status.numInstances == 1
    await until(api, host, connection_is("True"), deadline=3)


async def test_a_minute_without_the_api_loses_nothing(
    nodes: TakeHosts, api: Kube, api_server: Lab
) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    before, agent = await api.get(Hypervisor, host.name), await main_pid(host)
    await processes.kill(api_server.state.id, lambda process: process.role == ROLE)
    try:
        await make(host, document("kept"), document("gone"), start=True)
        await host.run("virsh", "-q", "destroy", "gone")
        await asyncio.sleep(60)  # the time itself is what is tested
    finally:
        await api_server.control.start()

    after = await until(api, host, instances(1), deadline=45)
    assert [instance.name for instance in after.status.instances] == ["kept"]
    assert before is not None
    assert after.metadata.uid == before.metadata.uid
    assert await main_pid(host) == agent


async def test_a_killed_agent_reports_the_present_state_again(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    await make(host, document("one"), document("two"), start=True)
    await until(api, host, instances(2))
    await kill_agent(host)
    await host.run("virsh", "-q", "destroy", "one")

    stored = await until(api, host, instances(1))

    assert [instance.name for instance in stored.status.instances] == ["two"]


async def test_an_idle_agent_writes_nothing(nodes: TakeHosts, api: Kube) -> None:
    (host,) = await nodes(1)
    await ready(api, host)
    for _ in range(3):  # the agent writes what it reads at its start; later there are no writes
        if not (written := await writes(api, host, seconds=20)):
            return
    raise AssertionError("\n".join(written))


@pytest.mark.timed
async def test_a_migration_shows_every_second_and_ends_completed(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    try:
        begun = time.monotonic()
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=10))
        first = await one_migration(api, lambda m: bool(m.status.timeElapsed), known, 10)
        assert time.monotonic() - begun < 3
        seen = {first.status.timeElapsed}
        while not move.done():
            now = await one_migration(api, lambda _: True, known)
            seen.add(now.status.timeElapsed)
            await asyncio.sleep(0.1)
        took = time.monotonic() - begun
        await move
        done = await one_migration(
            api, lambda m: m.status.type == "completed" and bool(m.status.destination), known
        )
    finally:
        await fleet.remove("moved")

    status = done.status
    assert (status.origin, status.destination) == (one, other)
    assert (status.operation, status.errMsg) == ("migration_out", None)
    assert status.downtime is not None
    assert len(seen) >= took - 2


async def test_a_migration_that_is_aborted_is_cancelled(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    try:
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=2))
        await one_migration(api, lambda m: m.status.type == "unbounded", known)
        await fleet.host(one).run("virsh", "domjobabort", "moved")
        ended = await one_migration(api, lambda m: m.status.type in {"failed", "cancelled"}, known)
        await asyncio.wait({move})
        assert move.exception() is not None
    finally:
        await fleet.remove("moved")
    assert (ended.status.type, (ended.status.errMsg or "")[:27]) == (
        "cancelled",
        "the migration was cancelled",
    )


async def test_an_agent_killed_in_a_migration_reports_its_end(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, other), known = await moving(nodes, api, lab)
    try:
        move = asyncio.create_task(fleet.move("moved", other, mib_per_second=16))
        await one_migration(api, lambda m: m.status.type == "unbounded", known)
        await kill_agent(fleet.host(one))
        await move
        done = await one_migration(api, lambda m: m.status.type == "completed", known, 60)
    finally:
        await fleet.remove("moved")
    assert (done.status.origin, done.status.destination) == (one, other)


async def test_pause_save_and_snapshot_are_no_migrations(
    nodes: TakeHosts, api: Kube, lab: Lab
) -> None:
    fleet, (one, _), known = await moving(nodes, api, lab, disk="local")
    host = fleet.host(one)
    # A raw disk can have external snapshots only. QEMU migrates the memory to the file.
    memory, overlay = f"{LOCAL}/vms/moved.memory", f"{LOCAL}/vms/moved.overlay"
    snapshot = (
        *("snapshot-create-as", "moved", "taken", "--live"),
        *("--memspec", f"file={memory},snapshot=external"),
        *("--diskspec", f"vda,snapshot=external,file={overlay}"),
    )
    try:
        for step in ("suspend", "resume"):
            await host.run("virsh", "-q", step, "moved", within=LONG)
        await host.run("virsh", "-q", *snapshot, within=LONG)
        last = await host.run("virsh", "domjobinfo", "--completed", "moved")
        assert "Snapshot" in last
        assert int(await host.run("stat", "--format=%s", memory)) > 2**20
        for step in ("managedsave", "start", "destroy"):
            await host.run("virsh", "-q", step, "moved", within=LONG)
        await until(api, host, lambda hv: not hv.status.instances[0].active)
        assert {m.metadata.name for m in await migrations(api)} == known
    finally:
        await host.run("sh", "-c", "virsh -q snapshot-delete --metadata moved taken || :")
        await host.run("rm", "-f", memory, overlay)
        await fleet.remove("moved")
