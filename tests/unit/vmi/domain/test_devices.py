"""Controllers, consoles and the other devices of the guest."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

import pytest
from tests.unit.vmi.domain.reading import made, one
from tests.unit.vmi.guests import UID, guest

Json = Any


def controllers(root: Element) -> dict[str | None, str | None]:
    return {it.get("type"): it.get("model") for it in root.findall("devices/controller")}


V = "virtio-non-transitional"


@pytest.mark.parametrize(
    ("devices", "expected"),
    [
        ({}, {"usb": "none", "scsi": V, "virtio-serial": V}),
        ({"disableHotplug": True}, {"usb": "none", "virtio-serial": V}),
        ({"autoattachSerialConsole": False}, {"usb": "none", "scsi": V}),
        (
            {"inputs": [{"name": "t", "type": "tablet"}]},
            {"usb": "qemu-xhci", "scsi": V, "virtio-serial": V},
        ),
        (
            {"inputs": [{"name": "t", "type": "tablet", "bus": "virtio"}]},
            {"usb": "none", "scsi": V, "virtio-serial": V},
        ),
        (
            {"disks": [{"name": "c", "cdrom": {"bus": "scsi"}}], "disableHotplug": True},
            {"usb": "none", "scsi": V, "virtio-serial": V},
        ),
        (
            {"disks": [{"name": "c", "cdrom": {"bus": "usb"}}]},
            {"usb": "qemu-xhci", "scsi": V, "virtio-serial": V},
        ),
    ],
)
def test_controllers_are_those_of_the_devices(devices: Json, expected: Json) -> None:
    assert controllers(made(guest(devices=devices))) == expected


@pytest.mark.parametrize(
    ("devices", "path", "expected"),
    [
        ({}, "memballoon", [{"model": V, "freePageReporting": "on"}]),
        ({}, "memballoon/stats", [{"period": "10"}]),
        ({"autoattachMemBalloon": False}, "memballoon", [{"model": "none"}]),
        ({}, "rng", []),
        ({"rng": {}}, "rng", [{"model": V}]),
        ({}, "serial", [{"type": "unix"}]),
        ({}, "serial/log", []),
        ({"autoattachSerialConsole": False}, "serial", []),
        ({"autoattachSerialConsole": False}, "console", []),
        ({}, "graphics", [{"type": "vnc"}]),
        ({"autoattachGraphicsDevice": False}, "graphics", []),
        ({"autoattachGraphicsDevice": False}, "video", []),
        ({}, "video/model", [{"type": "vga", "heads": "1", "vram": "16384"}]),
        ({"video": {"type": "bochs"}}, "video/model",
         [{"type": "bochs", "heads": "1", "vram": "16384"}]),
        ({"sound": {"name": "s"}}, "sound", [{"model": "ich9"}]),
        ({"sound": {"name": "s", "model": "ac97"}}, "sound", [{"model": "ac97"}]),
        ({"watchdog": {"name": "w"}}, "watchdog", [{"model": "i6300esb", "action": "reset"}]),
        ({"watchdog": {"name": "w", "i6300esb": {"action": "poweroff"}}}, "watchdog",
         [{"model": "i6300esb", "action": "poweroff"}]),
        ({"panicDevices": [{}, {"model": "isa"}]}, "panic", [{}, {"model": "isa"}]),
        ({"inputs": [{"name": "t", "type": "tablet"}]}, "input",
         [{"type": "tablet", "bus": "usb"}]),
        ({"inputs": [{"name": "t", "type": "tablet", "bus": "virtio"}]}, "input",
         [{"type": "tablet", "bus": "virtio", "model": "virtio"}]),
        ({"inputs": [{"name": "t", "type": "tablet"}]}, "input/alias", [{"name": "ua-t"}]),
    ],
)  # fmt: skip
def test_devices_are_those_that_are_requested(devices: Json, path: str, expected: Json) -> None:
    root = made(guest(devices=devices))
    assert [it.attrib for it in root.findall(f"devices/{path}")] == expected


def test_sockets_of_the_guest_lie_in_the_directory_of_its_uid() -> None:
    root = made(guest())
    serial = one(root, "devices/serial/source")
    assert serial.attrib == {
        "mode": "bind",
        "path": f"/var/run/kubevirt-private/{UID}/virt-serial0",
    }
    listen = one(root, "devices/graphics/listen")
    assert listen.get("socket") == f"/var/run/kubevirt-private/{UID}/virt-vnc"


def test_models_of_virtio_follow_the_wish_for_old_guests() -> None:
    volumes = [{"name": "a", "containerDisk": {"image": "i"}}]
    disk = {"name": "a", "disk": {"bus": "virtio"}}
    devices = {"useVirtioTransitional": True, "rng": {}, "disks": [disk]}
    found = made(guest({"volumes": volumes}, devices=devices)).findall("devices/*")
    models = {it.get("model") or "" for it in found}
    assert {model for model in models if "virtio" in model} == {"virtio-transitional"}
