"""The Linux guest, as drills use it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest import console, image, probe
from hypercobalt.lab.lab import Lab
from hypercobalt.lab.vms.domain import Tuning, Watchdog
from hypercobalt.lab.vms.request import VMRequest
from tests.lab.conftest import TakeFleet
from tests.lab.kit.events import Events

pytestmark = pytest.mark.timeout(240)


async def test_a_guest_comes_up_answers_and_reacts_to_its_power_button(fleet: TakeFleet) -> None:
    vms = await fleet(1)

    (vm,) = await vms.add(VMRequest(name="db"))
    assert (vm.name, vm.state) == ("db", "running")
    assert await vms.order("db", "echo still there") == "still there"
    await vms.stop("db")

    assert (await vms.inventory()).find("db").state == "shut off"
    assert "guest db: power button" in vms.log("db").read_text()
    await vms.start("db")
    assert await vms.order("db", "echo again") == "again"


async def test_guest_refuses_an_unknown_command(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    await vms.add(VMRequest(name="a", network=False))

    for command in ("rm -rf /", "dirty much", "write-disk 1", "ping"):
        with pytest.raises(LabError, match=f"refused '{command}'"):
            await vms.order("a", command)


ORDERS = (  # a guest, its order, and its state in libvirt then
    (VMRequest(name="panics", on_crash="preserve"), ["panic"], "'lifecycle'.*Crashed"),
    (VMRequest(name="reboots"), ["reboot"], "'reboot'"),
    (VMRequest(name="ends"), ["poweroff"], "'lifecycle'.*Stopped"),
    (
        VMRequest(name="starves", watchdog=Watchdog("none")),
        ["pet 4", "starve"],
        "'watchdog'.*none",
    ),
    (VMRequest(name="hangs"), ["pet 4", "hang"], "'watchdog'.*reset"),
)


async def test_an_order_gives_its_event(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    made = await vms.add(*(request for request, _, _ in ORDERS))
    for vm, (_, orders, expected) in zip(made, ORDERS, strict=True):
        async with Events(vms.host(vm.host)) as events:
            for order in orders:
                await vms.order(vm.name, order)
            await events.wait(rf"(?=.*\b{vm.name}\b).*{expected}")


PING = '{"execute": "guest-ping"}'


async def test_a_guest_agent_answers_until_it_is_turned_off(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    (vm,) = await vms.add(VMRequest(name="a", network=False))
    host = vms.host(vm.host)

    async with Events(host) as events:
        await vms.order("a", "agent on")
        await events.wait("'agent-lifecycle'.*state: 'connected'")
        assert (await host.run("virsh", "qemu-agent-command", "a", PING)).strip() == '{"return":{}}'
        await vms.order("a", "agent off")
        await events.wait("'agent-lifecycle'.*'disconnected' reason: 'channel event'")

    with pytest.raises(LabError, match="guest agent is not connected"):
        await host.run("virsh", "qemu-agent-command", "a", PING)


async def test_the_agent_of_a_hanging_guest_is_silent(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    (vm,) = await vms.add(VMRequest(name="a", network=False))
    host = vms.host(vm.host)
    async with Events(host) as events:
        await vms.order("a", "agent on")
        await events.wait("'agent-lifecycle'.*state: 'connected'")
    await host.run("virsh", "qemu-agent-command", "a", PING)

    await vms.order("a", "hang")

    with pytest.raises(LabError, match="not responding"):
        await host.run("virsh", "qemu-agent-command", "a", "--timeout", "2", PING)


async def test_a_failed_vm_leaves_nothing(fleet: TakeFleet, switched: Lab) -> None:
    vms = await fleet(1)

    with pytest.raises(LabError):
        await vms.add(VMRequest(name="a", disk="shared", tuning=Tuning(nodes="63")))

    assert (await vms.inventory()).vms == ()
    assert (await switched.central.nbctl("lsp-list", "vms")) == ""
    assert not list(switched.layout.shared_files.glob("vms/a*"))


async def test_kvm_is_tried_once(able_machine: None, tmp_path: Path) -> None:
    guest = await image.ready()

    found = await probe.accelerators(guest, tmp_path)
    (note,) = tmp_path.iterdir()
    note.write_bytes(msgspec.json.encode(msgspec.structs.replace(found, why="noted")))

    assert (await probe.accelerators(guest, tmp_path)).why == "noted"
    note.write_bytes(b"{")
    assert await probe.accelerators(guest, tmp_path) == found


async def test_equal_packages_give_equal_images(able_machine: None, tmp_path: Path) -> None:
    first, second = await image.ready(), await image.ready(tmp_path)

    assert first.key == second.key
    assert first.initrd.read_bytes() == second.initrd.read_bytes()
    assert first.kernel.read_bytes() == second.kernel.read_bytes()


async def test_without_debians_kernel_there_are_boot_sectors(
    fleet: TakeFleet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    vms = await fleet(1)
    (tmp_path / "apt.conf").write_text(f'Dir::State::lists "{tmp_path}/lists";')
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "apt.conf"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    with pytest.raises(LabError, match=r"VM vm-1: guest: .*the kind boot needs none"):
        await vms.add(VMRequest())
    (vm,) = await vms.add(VMRequest(kind="boot"))

    assert vm.title == "boot idle 10.78.0.10"


async def test_a_deaf_guest_ignores_its_power_button(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    (vm,) = await vms.add(VMRequest(name="a"))
    await vms.order("a", "deaf")

    await vms.host(vm.host).run("virsh", "shutdown", "a")
    async with asyncio.timeout(60):
        async for text in console.follow(vms.log("a")):
            if "alive 4" in text:
                break

    assert await vms.order("a", "echo still there") == "still there"


async def test_vms_made_at_once_get_names_and_addresses_of_their_own(fleet: TakeFleet) -> None:
    first, second = await fleet(1), await fleet(1)
    request = VMRequest(kind="boot")

    await asyncio.gather(first.add(request, request), second.add(request, request))

    vms = (await first.inventory()).vms
    assert [vm.name for vm in vms] == ["vm-1", "vm-2", "vm-3", "vm-4"]
    assert len({vm.title for vm in vms}) == 4


async def test_libvirt_accepts_our_documents(fleet: TakeFleet) -> None:
    vms = await fleet(1)
    (vm,) = await vms.add(
        VMRequest(name="a", disk="shared", tuning=Tuning(pins=((0, "0"),), emulator="0", nodes="0"))
    )
    host = vms.host(vm.host)

    document = await host.run("virsh", "dumpxml", "a", "--inactive")
    await host.run("virsh", "define", "--validate", "/dev/stdin", stdin=document)
