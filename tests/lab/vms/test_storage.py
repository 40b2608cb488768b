"""The disks that the hosts share, locked by one QEMU at a time, and failing for one host alone."""

from __future__ import annotations

import pytest

from hypercobalt.lab import shared_mount
from hypercobalt.lab.disk import CONSOLES
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.storage.faults import FaultFiles, StorageFault
from hypercobalt.lab.vms.blueprint import disk_path
from hypercobalt.lab.vms.domain import ErrorPolicy
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from tests.lab.conftest import TakeFleet, until
from tests.lab.kit.events import Events

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def faults(switched: Lab) -> FaultFiles:
    return shared_mount.faults(switched.layout)


def writer(name: str, host: str = "kvm-1", error_policy: ErrorPolicy = "stop") -> VMRequest:
    """A guest that writes to a shared disk twice a second."""
    return VMRequest(
        name=name,
        kind="boot",
        program="write-disk",
        host=host,
        disk="shared",
        error_policy=error_policy,
        network=False,
    )


async def state(vms: Fleet, name: str) -> str:
    host = vms.host((await vms.inventory()).find(name).host)
    return " ".join((await host.run("virsh", "domstate", "--reason", name)).split())


async def written(vms: Fleet, name: str) -> int:
    """How many write requests of a guest its QEMU has finished."""
    host = vms.host((await vms.inventory()).find(name).host)
    printed = await host.run("virsh", "domblkstat", name, "vda")
    return next(int(line.split()[2]) for line in printed.splitlines() if "wr_req" in line)


async def goes_on(vms: Fleet, name: str) -> None:
    """Wait until a guest has written once more."""
    before = await written(vms, name)

    async def more() -> None:
        if await written(vms, name) == before:
            raise LabError(f"{name} writes nothing")

    await until(more)


async def test_a_disk_in_use_is_refused_to_the_qemu_of_another_host(fleet: TakeFleet) -> None:
    vms = await fleet(2)
    await vms.add(writer("a"))
    first, second = vms.host("kvm-1"), vms.host("kvm-2")
    document = await first.run("virsh", "dumpxml", "a", "--inactive")
    await second.run("virsh", "define", "/dev/stdin", stdin=document)

    with pytest.raises(LabError, match='Failed to get "write" lock'):
        await second.run("virsh", "start", "a")
    await goes_on(vms, "a")  # the refusal has left it alone

    await first.crash()

    await second.run("rm", "-f", f"{CONSOLES}/a.sock")
    await second.run("virsh", "start", "a")
    await goes_on(vms, "a")


async def test_a_vm_frozen_with_its_host_keeps_its_disk(fleet: TakeFleet) -> None:
    vms = await fleet(2)
    await vms.add(writer("a"))
    host, second = vms.host("kvm-1"), vms.host("kvm-2")
    document = await host.run("virsh", "dumpxml", "a", "--inactive")
    await second.run("virsh", "define", "/dev/stdin", stdin=document)

    await host.freeze()

    with pytest.raises(LabError, match='Failed to get "write" lock'):
        await second.run("virsh", "start", "a")


async def test_disks_that_refuse_pause_the_guests_of_one_host(
    fleet: TakeFleet, faults: FaultFiles
) -> None:
    vms = await fleet(2)
    host = vms.host("kvm-1")
    await vms.add(writer("a"), writer("b", "kvm-2"))

    async with Events(host) as events:
        faults.write(host.machine, StorageFault.DENY)
        await events.wait("'io-error-reason'.*pause", "Suspended I/O Error")
    assert await state(vms, "a") == "paused (I/O error)"
    await goes_on(vms, "b")

    faults.write(host.machine, None)
    await host.run("virsh", "resume", "a")
    await goes_on(vms, "a")


async def test_a_guest_that_gets_its_errors_runs_on(fleet: TakeFleet, faults: FaultFiles) -> None:
    vms = await fleet(1)
    host = vms.host("kvm-1")
    await vms.add(writer("a", error_policy="report"))

    async with Events(host) as events:
        faults.write(host.machine, StorageFault.DENY)
        await events.wait("'io-error-reason'.*report", "'io-error-reason'.*report")

    assert await state(vms, "a") == "running (booted)"


@pytest.mark.parametrize("fault", [StorageFault.CUT, StorageFault.HANG])
async def test_disks_that_do_not_answer_stop_a_guest_without_an_event(
    fleet: TakeFleet, faults: FaultFiles, fault: StorageFault
) -> None:
    vms = await fleet(2)
    host = vms.host("kvm-1")
    await vms.add(writer("a"), writer("b", "kvm-2"))

    async with Events(host) as events:
        faults.write(host.machine, fault)
        await goes_on(vms, "b")  # four of its writes: "a" has begun one at least
        await goes_on(vms, "b")
        before = await written(vms, "a")
        await goes_on(vms, "b")
        await goes_on(vms, "b")
        assert await written(vms, "a") == before
        assert await state(vms, "a") == "running (booted)"
        faults.write(host.machine, None)
        await goes_on(vms, "a")
    assert not [line for line in events.seen if " a:" in line or "'a'" in line], events.seen


async def test_a_host_with_hanging_disks_can_be_cut_off_power(
    fleet: TakeFleet, faults: FaultFiles
) -> None:
    vms = await fleet(2)
    host, other = vms.host("kvm-1"), vms.host("kvm-2")
    await vms.add(writer("a"), writer("b", "kvm-2"))
    document = await host.run("virsh", "dumpxml", "a", "--inactive")
    faults.write(host.machine, StorageFault.HANG)
    await goes_on(vms, "b")
    await goes_on(vms, "b")

    await host.crash()

    await other.run("virsh", "define", "/dev/stdin", stdin=document)
    await other.run("virsh", "start", "a")  # its lock is free
    await goes_on(vms, "a")


async def test_a_cut_cable_leaves_the_disks(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    await vms.add(writer("a"))

    await vms.host("kvm-1").wire.cut()

    await goes_on(vms, "a")


async def test_a_full_pool_pauses_guests_on_all_hosts_until_it_has_space(
    fleet: TakeFleet, faults: FaultFiles
) -> None:
    vms = await fleet(2)
    hosts = (vms.host("kvm-1"), vms.host("kvm-2"))
    names = [f"vm-{number}" for number in range(6)]
    await vms.add(*(writer(name, hosts[n % 2].name) for n, name in enumerate(names)))

    async with Events(hosts[0]) as first, Events(hosts[1]) as second:
        for host in hosts:
            faults.write(host.machine, StorageFault.FULL)
        for events in (first, second):
            await events.wait(*["'io-error-reason'.*enospc"] * 3)
    assert {await state(vms, name) for name in names} == {"paused (I/O error)"}

    for host in hosts:
        faults.write(host.machine, None)
    for number, name in enumerate(names):
        await hosts[number % 2].run("virsh", "resume", name)
        await goes_on(vms, name)
    assert disk_path("vm-0", host_only=False) in await hosts[0].run("virsh", "domblklist", "vm-0")
