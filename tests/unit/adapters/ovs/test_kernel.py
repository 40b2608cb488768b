from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.ovs import kernel
from hypercobalt.adapters.ovs.links import KernelBond, KernelBondMember, Link
from hypercobalt.adapters.ovs.port import SwitchError

RECORDED = Path(__file__).parent / "recorded"
UNIX = """Num       RefCount Protocol Flags    Type St Inode Path
000000001c2a9dab: 00000003 00000000 00000000 0001 03 721866 /run/openvswitch/br-int.mgmt
000000004ccbc83e: 00000003 00000000 00000000 0001 03 721859 /var/run/openvswitch/br-int.mgmt
00000000b55b9b1d: 00000002 00000000 00010000 0001 01 708466 /run/openvswitch/br-int.mgmt
00000000b55b9b1e: 00000003 00000000 00000000 0001 03 708467 /run/openvswitch/my-br-int.mgmt
00000000b55b9b1f: 00000003 00000000 00000000 0001 03 708468
00000000b55b9b20: 00000003 00000000 00000000 0001 03 708469 /run/a b/br-ex.mgmt
"""


def device(root: Path, name: str, **files: str) -> Path:
    folder = root / "sys/class/net" / name
    folder.mkdir(parents=True)
    for file, text in files.items():
        (folder / file).write_text(f"{text}\n")
    return folder


def test_devices_are_read(tmp_path: Path) -> None:
    device(tmp_path, "bond0", ifindex="2", flags="0x1003", mtu="1500")
    eth = device(
        tmp_path, "eth0", ifindex="3", flags="0x1803", carrier="1", speed="25000", mtu="9000"
    )
    (eth / "master").symlink_to(tmp_path / "sys/class/net/bond0")
    device(tmp_path, "off", ifindex="4", flags="0x1002", carrier="1", speed="-1", mtu="1500")
    device(
        tmp_path, "tap1", ifindex="5", flags="0x1003", carrier="0", speed="10", tun_flags="0x1002"
    )
    device(tmp_path, "half", ifindex="6")
    (tmp_path / "sys/class/net/bonding_masters").write_text("bond0\n")
    assert kernel.links(tmp_path) == {
        "bond0": Link("bond0", 2, admin_up=True, mtu=1500),
        "eth0": Link("eth0", 3, True, True, master="bond0", speed=25_000_000_000, mtu=9000),
        "off": Link("off", 4, admin_up=False, mtu=1500),
        "tap1": Link("tap1", 5, admin_up=True, carrier=False, is_tap=True),
    }


def test_witness_that_cannot_be_read_is_no_witness_of_nothing(tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    (locked / "bonding").write_text("no folder, as one that may not be opened")
    for read in (
        lambda: kernel.links(tmp_path),
        lambda: kernel.peers(tmp_path / "none", "br-int.mgmt"),
        lambda: kernel.bonds(tmp_path / "none"),
        lambda: kernel.bonds(locked),
    ):
        with pytest.raises(SwitchError, match="cannot be read"):
            read()


def test_accepted_connections_to_a_socket_are_counted(tmp_path: Path) -> None:
    (tmp_path / "unix").write_text(UNIX)
    assert kernel.peers(tmp_path, "br-int.mgmt") == 2
    assert kernel.peers(tmp_path, "br-ex.mgmt") == 1
    assert kernel.peers(tmp_path, "mgmt") == 0


def test_bonds_of_the_kernel_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "bonding"
    folder.mkdir()
    for name, file in (("bond0", "bonding-802.3ad.txt"), ("bond1", "bonding-active-backup.txt")):
        (folder / name).write_text((RECORDED / "written" / file).read_text())
    assert kernel.bonds(tmp_path) == (
        KernelBond(
            "bond0",
            "802.3ad",
            up=True,
            members=(
                KernelBondMember("eth0", up=True, aggregator=1),
                KernelBondMember("eth1", up=False, aggregator=2),
            ),
            aggregator=1,
            partner="00:23:04:ee:be:01",
        ),
        KernelBond(
            "bond1",
            "active-backup",
            up=True,
            members=(KernelBondMember("eth0", up=True), KernelBondMember("eth1", up=True)),
            active="eth1",
        ),
    )


def test_a_kernel_without_the_driver_has_no_bonds(tmp_path: Path) -> None:
    assert kernel.bonds(tmp_path) == ()


@given(st.text())
def test_any_text_of_a_bond_is_read(text: str) -> None:
    assert kernel.parse_bond("bond0", text).name == "bond0"
