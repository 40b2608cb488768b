"""Screens: VNC and SPICE on the address that the new host's qemu.conf has."""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Dropped,
    element,
)
from hypercobalt.adapters.libvirt.documents.portable.table.common import DEVICE, VIRTIO_DRIVER
from hypercobalt.adapters.libvirt.documents.portable.values import (
    NO,
    NUMBER,
    ON_OFF,
    SECRET,
    SMALL,
    TYPE,
    YES_NO,
    form,
    one_of,
)

_PORT: Final = form(
    "-1, or a port of 5900 to 6923", r"-1|59[0-9]{2}|6[0-8][0-9]{2}|69[01][0-9]|692[0-3]"
)
_KEYMAP: Final = form("a keymap", r"[a-z]{2,8}(-[a-z]{2,8})?")
_TIME: Final = form("a time", r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_COMPRESSION: Final = one_of("auto never always")

_VNC: Final = element(
    {"listen": Dropped()},
    type=one_of("vnc"),
    port=_PORT,
    autoport=YES_NO,
    websocket=_PORT,
    keymap=_KEYMAP,
    passwd=SECRET,
    passwdValidTo=_TIME,
    connected=one_of("disconnect fail keep"),
    sharePolicy=one_of("allow-exclusive force-shared ignore"),
    powerControl=YES_NO,
    required="type",
    dropped="listen",
)
_SPICE: Final = element(
    {
        "listen": Dropped(),
        "channel": element(
            name=one_of("main display inputs cursor playback record smartcard usbredir"),
            mode=one_of("any secure insecure"),
            most=16,
        ),
        "image": element(compression=one_of("auto_glz auto_lz quic glz lz off")),
        "jpeg": element(compression=_COMPRESSION),
        "zlib": element(compression=_COMPRESSION),
        "playback": element(compression=ON_OFF),
        "streaming": element(mode=one_of("filter all off")),
        "clipboard": element(copypaste=YES_NO),
        "filetransfer": element(enable=YES_NO),
        "mouse": element(mode=one_of("server client")),
        "gl": element(enable=NO, required="enable"),
    },
    type=one_of("spice"),
    port=_PORT,
    tlsPort=_PORT,
    autoport=YES_NO,
    keymap=_KEYMAP,
    passwd=SECRET,
    passwdValidTo=_TIME,
    connected=one_of("disconnect fail keep"),
    defaultMode=one_of("any secure insecure"),
    required="type",
    dropped="listen",
)

GRAPHICS: Final = Choice("type", {"vnc": _VNC, "spice": _SPICE}, most=4)
VIDEO: Final = element(
    {
        **DEVICE,
        "driver": element(None, VIRTIO_DRIVER, name=one_of("qemu"), vgaconf=one_of("io on off")),
        "model": element(
            {
                "acceleration": element(accel2d=YES_NO, accel3d=NO),
                "resolution": element(x=SMALL, y=SMALL, required="x y"),
            },
            type=one_of("vga cirrus qxl virtio bochs ramfb none"),
            vram=NUMBER,
            ram=NUMBER,
            vgamem=NUMBER,
            vram64=NUMBER,
            heads=SMALL,
            primary=YES_NO,
            blob=ON_OFF,
            required="type",
        ),
    },
    most=8,
)
AUDIO: Final = Choice(
    "type",
    {kind: element(id=SMALL, type=one_of(kind), required="id type") for kind in ("none", "spice")},
    most=8,
)
SOUND: Final = element(
    {
        **DEVICE,
        "codec": element(type=one_of("duplex micro output"), required="type", most=4),
        "audio": element(id=SMALL, required="id"),
    },
    model=TYPE,
    required="model",
    most=4,
)
