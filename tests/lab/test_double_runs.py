"""The disk lock keeps one instance from running twice, and the witness detects it otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from hypercobalt.drills.witness import Witness
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest import ledger
from hypercobalt.lab.vms.blueprint import disk_path
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import VMRequest
from hypercobalt.lab.vms.virsh import remove, virsh
from hypercobalt.runtime.tasks import beside
from tests.lab.conftest import TakeFleet

pytestmark = pytest.mark.timeout(240)

VM = "a"
LEDGER = VMRequest(
    name=VM, kind="boot", program="ledger", host="kvm-1", disk="shared", network=False
)
LONE = replace(LEDGER, name="lone", program="idle", readonly=True)


@pytest.fixture
async def vms(fleet: TakeFleet) -> AsyncIterator[Fleet]:
    taken = await fleet(2)
    await taken.add(LEDGER)
    yield taken
    await remove(taken.host("kvm-2"), VM)


@pytest.fixture
async def witness(vms: Fleet) -> AsyncIterator[Witness]:
    prefix = vms.host("kvm-1").machine.rpartition("-")[0]
    watching = Witness(prefix)
    async with beside(watching.watch(), name="witness"):
        yield watching


async def definition(vms: Fleet, name: str = VM) -> str:
    return await virsh(vms.host("kvm-1"), "dumpxml", "--inactive", name)


async def test_a_second_hosts_qemu_is_refused_the_disk_of_one_that_runs(vms: Fleet) -> None:
    other = vms.host("kvm-2")
    await virsh(other, "define", "/dev/stdin", stdin=await definition(vms))
    with pytest.raises(LabError, match='Failed to get "write" lock'):
        await virsh(other, "start", VM)


async def test_the_witness_sees_an_instance_that_runs_twice(vms: Fleet, witness: Witness) -> None:
    """The second one runs on a copy of the disk, which no lock protects."""
    other, shared = vms.host("kvm-2"), disk_path(VM, host_only=False)
    copy = f"{shared}.copy"
    await other.run("cp", shared, copy)
    try:
        text = (await definition(vms)).replace(shared, copy)
        await virsh(other, "define", "/dev/stdin", stdin=text)
        await virsh(other, "start", VM)
        await _seen_twice(witness)
    finally:
        await other.run("rm", "-f", copy)
    (found,) = witness.double_runs
    assert found.uuid == str(vms.id_of(VM))
    assert set(found.machines) == {vms.host("kvm-1").machine, other.machine}


async def test_no_lock_keeps_a_guest_that_writes_to_no_disk_from_running_twice(
    vms: Fleet, witness: Witness
) -> None:
    other = vms.host("kvm-2")
    await vms.add(LONE)
    try:
        await virsh(other, "define", "/dev/stdin", stdin=await definition(vms, "lone"))
        await virsh(other, "start", "lone")
        await _seen_twice(witness)
    finally:
        await remove(other, "lone")
    (found,) = witness.double_runs
    assert found.uuid == str(vms.id_of("lone"))


async def _seen_twice(witness: Witness) -> None:
    async with asyncio.timeout(30):
        while not witness.double_runs:  # noqa: ASYNC110 - the kernel sends nothing
            await asyncio.sleep(0.1)


async def test_a_live_migration_is_no_double_run_and_keeps_the_ledger(
    vms: Fleet, witness: Witness
) -> None:
    image = vms.log(VM).parent.parent / "vms" / f"{VM}.img"
    for target in ("kvm-2", "kvm-1"):
        await vms.move(VM, target)
        records = ledger.read(image).records
        async with asyncio.timeout(30):
            while ledger.read(image).records < records + 4:  # noqa: ASYNC110 - a guest writes them
                await asyncio.sleep(0.1)
    found = ledger.read(image)
    assert (len(found.boots), found.faults) == (1, ())
    assert witness.double_runs == ()
