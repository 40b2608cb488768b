"""Disks: images below the site's roots with their format, images in Ceph, empty drives.

A format is written in the document, never probed: the guest writes what would be probed. A network
disk of any other kind makes the host's QEMU connect wherever the document wants.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Entry,
    Named,
    Rule,
    element,
)
from hypercobalt.adapters.libvirt.documents.portable.table.common import (
    BOOT,
    DEVICE,
    VIRTIO_DRIVER,
)
from hypercobalt.adapters.libvirt.documents.portable.values import (
    BIG,
    NO,
    NUMBER,
    ON_OFF,
    SMALL,
    TOKEN,
    TYPE,
    UUID,
    form,
    one_of,
)

_LAYERS: Final = 8
_STARTUP: Final = one_of("mandatory requisite optional")
_WORD: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
_IMAGE: Final = form("POOL/IMAGE or POOL/NAMESPACE/IMAGE", rf"{_WORD}(/{_WORD}){{1,2}}")
_PORT: Final = form("a port", r"[0-9]{1,5}")
_SERIAL: Final = form(
    "up to 64 letters, digits, blanks, or any of _.+-", r"([A-Za-z0-9][A-Za-z0-9 _.+-]{0,63})?"
)
_RATES: Final = tuple(
    f"{what}_{unit}_sec{suffix}"
    for what in ("total", "read", "write")
    for unit in ("bytes", "iops")
    for suffix in ("", "_max", "_max_length")
)

_DRIVER: Final = element(
    None,
    VIRTIO_DRIVER,
    name=one_of("qemu"),
    type=Named.FORMAT,
    cache=one_of("default none writethrough writeback directsync unsafe"),
    error_policy=one_of("stop report ignore enospace"),
    rerror_policy=one_of("stop report ignore"),
    io=one_of("native threads io_uring"),
    ioeventfd=ON_OFF,
    event_idx=ON_OFF,
    copy_on_read=ON_OFF,
    discard=one_of("unmap ignore"),
    discard_no_unref=ON_OFF,
    detect_zeroes=one_of("off on unmap"),
    queues=SMALL,
    queue_size=SMALL,
    iothread=SMALL,
    required="type",
)
_CEPH: Final = element(
    {
        "host": element(name=Named.STORAGE_HOST, port=_PORT, required="name", most=16),
        "snapshot": element(name=TOKEN, required="name"),
        "auth": element(
            {"secret": element(type=one_of("ceph"), uuid=UUID, usage=TOKEN, required="type")},
            username=TOKEN,
        ),
    },
    protocol=one_of("rbd"),
    name=_IMAGE,
    required="protocol name",
    dropped="index",
)
_FILE: Final = element(
    file=Named.DISK_FILE, startupPolicy=_STARTUP, required="file", dropped="index"
)
_DEVICE: Final = element(
    dev=Named.DISK_FILE, startupPolicy=_STARTUP, required="dev", dropped="index"
)


def _backing(layers: int) -> Entry:
    """An image's backing files, each named and with its format; empty where there is none."""
    if not layers:
        return Rule()
    children: dict[str, Entry] = {
        "format": element(type=Named.FORMAT, required="type"),
        "source": _FILE,
        "backingStore": _backing(layers - 1),
    }
    return Choice(
        "type",
        {"": Rule(), "file": element(children, type=one_of("file"), dropped="index")},
        default="",
    )


def _common(source: Rule) -> dict[str, Entry]:
    return {
        **DEVICE,
        "driver": _DRIVER,
        "source": source,
        "auth": element(
            {"secret": element(type=one_of("ceph"), uuid=UUID, usage=TOKEN, required="type")},
            username=TOKEN,
        ),
        "backingStore": _backing(_LAYERS),
        "target": element(
            dev=form("a target", r"[a-z]{2,4}[a-z]{1,3}"),
            bus=one_of("virtio ide sata scsi usb fdc sd xen"),
            tray=one_of("open closed"),
            removable=ON_OFF,
            rotation_rate=SMALL,
            required="dev",
        ),
        "boot": BOOT,
        "readonly": Rule(),
        "shareable": Rule(),
        "serial": element(text=_SERIAL),
        "wwn": element(text=form("16 hexadecimal digits", r"[0-9A-Fa-f]{16}")),
        "vendor": element(text=form("up to 8 characters", r"[ !-+\--~]{1,8}")),
        "product": element(text=form("up to 16 characters", r"[ !-+\--~]{1,16}")),
        "geometry": element(cyls=NUMBER, heads=NUMBER, secs=NUMBER, trans=one_of("auto none lba")),
        "blockio": element(
            logical_block_size=NUMBER, physical_block_size=NUMBER, discard_granularity=NUMBER
        ),
        "iotune": element(
            {
                "size_iops_sec": element(text=BIG),
                "group_name": element(text=TOKEN),
                **{rate: element(text=BIG) for rate in _RATES},
            }
        ),
    }


def _disk(type_: str, source: Rule) -> Rule:
    return element(
        _common(source),
        type=one_of(type_),
        device=one_of("disk cdrom floppy lun" if type_ == "block" else "disk cdrom floppy"),
        model=TYPE,
        snapshot=NO,
        rawio=NO,
        sgio=one_of("filtered"),
        required="type",
    )


DISK: Final = Choice(
    "type",
    {
        "file": _disk("file", _FILE),
        "block": _disk("block", _DEVICE),
        "network": _disk("network", _CEPH),
    },
    most=256,
)
