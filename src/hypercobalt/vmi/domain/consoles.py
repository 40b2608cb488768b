"""What a guest is reached by: serial console, graphics, inputs, and the guest agent's channel.

Sockets lie in the pod's private directory. No file keeps what the guest writes to its serial port:
nothing would rotate it without virtlogd, so that a guest could fill the host's disk.

Source: libvirt, formatdomain, consoles and graphical framebuffers; kubevirt, as recorded.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from hypercobalt.api.kubevirt.devices import DevicesSpec, InputSpec
from hypercobalt.vmi.domain.elements import alias, element
from hypercobalt.vmi.paths import PodPaths

SERIAL_SOCKET: Final = "virt-serial0"
VNC_SOCKET: Final = "virt-vnc"
AGENT_CHANNEL: Final = "org.qemu.guest_agent.0"

_VIDEO_KIB: Final = 16384


def has_serial(devices: DevicesSpec) -> bool:
    return devices.autoattachSerialConsole is not False


def console_elements(devices: DevicesSpec, uid: str, paths: PodPaths) -> list[Element]:
    """Serial port and console, graphics and video, inputs, and the channel of the guest agent.

    Args:
        devices: of the VMI.
        uid: of the VMI: names the directory of the sockets.
        paths: of the pod.
    """
    made = [element("channel", element("target", name=AGENT_CHANNEL, type="virtio"), type="unix")]
    if has_serial(devices):
        made += _serial(paths.guest_socket(uid, SERIAL_SOCKET))
    if devices.autoattachGraphicsDevice is not False:
        made += _graphics(devices, paths.guest_socket(uid, VNC_SOCKET))
    return made + [_input(one) for one in devices.inputs]


def _serial(socket: str) -> list[Element]:
    serial = element(
        "serial",
        element("target", port=0),
        element("source", mode="bind", path=socket),
        type="unix",
    )
    return [serial, element("console", element("target", type="serial", port=0), type="pty")]


def _graphics(devices: DevicesSpec, socket: str) -> list[Element]:
    kind = (devices.video.type if devices.video else "") or "vga"
    return [
        element("graphics", element("listen", type="socket", socket=socket), type="vnc"),
        element("video", element("model", type=kind, heads=1, vram=_VIDEO_KIB)),
    ]


def _input(spec: InputSpec) -> Element:
    bus = spec.bus or "usb"
    model = "virtio" if bus == "virtio" else None
    return element("input", alias(spec.name), type=spec.type, bus=bus, model=model)
