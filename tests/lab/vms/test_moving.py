"""Live migration between hosts: the guest, its disk and its network go along."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from hypercobalt.lab.disk import LOCAL
from hypercobalt.lab.errors import LabError
from hypercobalt.lab.lab import Lab, down
from hypercobalt.lab.setup import Setup
from hypercobalt.lab.vms.fleet import Fleet
from hypercobalt.lab.vms.request import Storage, VMRequest
from tests.lab.conftest import SWITCHED, TakeFleet
from tests.waiting import until

pytestmark = pytest.mark.timeout(300)


async def pings(vms: Fleet, name: str, since: int) -> tuple[int, int]:
    """Sent and received, as the guest counted them."""
    log = vms.log(name)

    async def result() -> bool:
        return bool(_RESULT.search(log.read_text()[since:]))

    await until(result)
    found = _RESULT.search(log.read_text()[since:])
    assert found
    return int(found[1]), int(found[2])


_RESULT = re.compile(r"pinged \S+ (\d+) packets transmitted, (\d+) packets received")


async def test_a_removed_host_takes_its_vms_along_and_no_others(
    fleet: TakeFleet, switched: Lab
) -> None:
    vms = await fleet(2)
    await vms.add(
        VMRequest(name="stays", kind="boot", host="kvm-2", disk="shared"),
        VMRequest(name="goes", kind="boot", host="kvm-2", disk="shared"),
    )
    await vms.move("stays", "kvm-1")
    await vms.host("kvm-2").crash()

    await vms.remove_host("kvm-2")

    assert {vm.name for vm in (await vms.inventory()).vms} == {"stays"}
    owners = ("--bare", "--columns=external_ids", "list", "Logical_Switch_Port")
    found = set((await switched.central.nbctl(*owners)).split())
    assert found & {"vm=stays", "vm=goes"} == {"vm=stays"}  # the lab has those of other tests
    disks = (switched.layout.shared_files / "vms").iterdir()
    assert {disk.name for disk in disks if not disk.name.startswith(".")} == {"stays.img"}
    assert not vms.log("goes").exists()


async def test_the_network_comes_back_after_its_hosts_did(fleet: TakeFleet, switched: Lab) -> None:
    vms = await fleet(2)
    await vms.add(VMRequest(name="a", host="kvm-1"), VMRequest(name="b", host="kvm-2"))

    await vms.host("kvm-1").run("systemctl", "restart", "openvswitch-switch.service")
    await vms.order("a", "ping 10.78.0.11 30 0.2")
    assert (await pings(vms, "a", 0))[1] >= 15

    since = len(vms.log("a").read_text())
    await vms.host("kvm-2").crash()
    await switched.up_host(vms.host("kvm-2"), SWITCHED)
    await vms.revive()
    await vms.order("a", "ping 10.78.0.11 30 0.2")
    assert (await pings(vms, "a", since))[1] >= 15


async def test_vms_on_two_hosts_reach_each_other_also_while_one_moves(fleet: TakeFleet) -> None:
    vms = await fleet(2)
    one, two = await vms.add(VMRequest(name="a", host="kvm-1"), VMRequest(name="b", host="kvm-2"))
    here, address = (vm.title.split()[1] for vm in (one, two))
    await vms.order("a", f"ping {address} 10 0.2")
    await vms.order("b", f"ping {here} 10 0.2")
    for name in ("a", "b"):
        assert (await pings(vms, name, 0))[1] >= 8  # OVN may have to learn first where the other is
    since = len(vms.log("a").read_text())

    await vms.order("a", f"ping {address} 120 0.1")
    await vms.move("a", "kvm-2")
    await vms.move("a", "kvm-1")
    sent, received = await pings(vms, "a", since)

    assert (await vms.inventory()).find("a").host == "kvm-1"
    assert sent == 120
    assert received >= 110


@pytest.mark.parametrize("disk", [None, "shared", "local"])
async def test_a_vm_moves_with_its_disk(
    fleet: TakeFleet, disk: Storage | None, switched: Lab
) -> None:
    vms = await fleet(2)
    await vms.add(VMRequest(name="a", host="kvm-1", disk=disk, network=False))
    written = await vms.order("a", "write-disk 4") if disk else ""

    await vms.move("a", "kvm-2")

    assert [(vm.name, vm.host, vm.state) for vm in (await vms.inventory()).vms] == [
        ("a", "kvm-2", "running")
    ]
    if disk:
        assert await vms.order("a", "read-disk 4") == written
    path = Path(LOCAL.lstrip("/")) / "vms" / "a.img"
    on_disk = [(switched.layout.root(host) / path).exists() for host in ("kvm-1", "kvm-2")]
    assert on_disk == [False, disk == "local"]


async def test_a_cancelled_move_leaves_the_vm_where_it_was(fleet: TakeFleet, switched: Lab) -> None:
    vms = await fleet(2)
    await vms.add(
        VMRequest(name="a", host="kvm-1", disk="local"), VMRequest(name="b", host="kvm-1")
    )
    await vms.order("a", "dirty 20")

    move = asyncio.create_task(vms.move("a", "kvm-2", mib_per_second=1))

    async def is_moving() -> bool:
        return "Outgoing" in await vms.host("kvm-1").run("virsh", "domjobinfo", "a")

    await until(is_moving)
    move.cancel()
    with pytest.raises(asyncio.CancelledError):
        await move

    async def is_on_one_host() -> bool:
        return len((await vms.inventory()).vms) == 2

    await until(is_on_one_host)
    assert not (switched.layout.root("kvm-2") / LOCAL.lstrip("/") / "vms" / "a.img").exists()
    assert (await vms.inventory()).find("a").host == "kvm-1"
    since = len(vms.log("a").read_text())
    await vms.order("a", "ping 10.78.0.11 10 0.2")
    assert (await pings(vms, "a", since))[1] >= 8


async def test_a_vm_does_not_move_to_where_it_is_or_to_a_host_that_is_off(fleet: TakeFleet) -> None:
    vms = await fleet(2)
    await vms.add(VMRequest(name="a", kind="boot", host="kvm-1", network=False))
    await vms.host("kvm-2").crash()

    with pytest.raises(LabError, match="on kvm-1 already"):
        await vms.move("a", "kvm-1")
    with pytest.raises(LabError, match="host kvm-2 is off"):
        await vms.move("a", "kvm-2")
    with pytest.raises(LabError, match="kvm-2 does not list its VMs: off"):
        await vms.move("c", "kvm-1")


async def test_vms_live_without_ovn(able_machine: None, tmp_path: Path) -> None:
    try:
        lab = await Lab.make(tmp_path / "lab")
        await lab.up(Setup(hosts=2, control_plane=False, ovn=False))
        vms = Fleet(lab)

        (vm,) = await vms.add(VMRequest(name="a", kind="boot", host="kvm-1"))
        await vms.move("a", "kvm-2")
        assert (vm.title, (await vms.inventory()).find("a").host) == ("boot idle", "kvm-2")
        await vms.remove("a")

        assert (await vms.inventory()).vms == ()
    finally:
        await down(tmp_path / "lab")
