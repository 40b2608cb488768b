"""Names a device for people: what it is, and the device or file of the host behind it.

Values come from hostile documents: they are short here, and of plain characters.

Source: libvirt's formatdomain.html, "Devices".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hypercobalt.adapters.libvirt.documents.tree import Element

_WORDS: Final = {
    "audio": "audio backend",
    "crypto": "crypto device",
    "filesystem": "directory of the host",
    "graphics": "screen",
    "hostdev": "host device",
    "input": "input device",
    "interface": "network interface",
    "memory": "memory device",
    "parallel": "parallel port",
    "redirdev": "redirected device",
    "rng": "random number generator",
    "serial": "serial port",
    "shmem": "shared memory",
    "sound": "sound device",
    "tpm": "TPM",
    "video": "video device",
}
_UNSEEN: Final = re.compile(r"[^A-Za-z0-9_.:/@+=-]")
_MOST: Final = 80
_PCI: Final = ("domain", "bus", "slot", "function")
_SCSI: Final = ("bus", "target", "unit")
_PLACES: Final = ("file", "dev", "dir", "path", "evdev", "socket", "bridge", "network", "wwpn")
"""Attributes of a source that name what is behind it."""
_INSIDE: Final = ("path", "block", "char", "interface")
"""Elements below a source that do, by their text."""


def name_of(device: Element) -> str:
    """What a device is, such as `host device usb 0951:1666 at 1.4`."""
    return " ".join(filter(None, _parts(device)))


def _parts(device: Element) -> Iterator[str]:
    source = device.first("source") or device.first("backend/source")
    match device.tag:
        case "hostdev":
            yield from (_WORDS["hostdev"], _plain(device.get("type")), _behind(source))
        case "interface" if device.get("type") == "hostdev":
            yield from ("network interface passed through", _behind(source))
        case "filesystem":
            target = device.first("target")
            yield from (_WORDS["filesystem"], _plain(target.get("dir") if target else ""))
        case "disk":
            target = device.first("target")
            yield _plain(device.get("device", "disk"))
            yield _plain(target.get("dev") if target else "")
            yield _kind(device)
            yield _behind(source)
        case tag:
            yield _WORDS.get(tag, tag if tag.isalpha() and len(tag) < _MOST else _plain(tag))
            yield _kind(device)
            yield _behind(source) or _of_its_own(device)


def _kind(device: Element) -> str:
    """Name the type, model or mode of a device or of its backend; "" for none."""
    backend = device.first("backend") or Element("backend", {})
    kinds = (("model", backend), ("type", backend), ("type", device), ("model", device))
    for attribute, one in (*kinds, ("mode", device)):
        if kind := one.get(attribute):
            return f"of the {attribute} {_plain(kind)}"
    return ""


def _behind(source: Element | None) -> str:
    """What a source names, in the words of the host."""
    if source is None:
        return ""
    return " at ".join(filter(None, (_called(source), _address(source)))) or _place(source)


def _called(source: Element) -> str:
    vendor, product = source.first("vendor"), source.first("product")
    if vendor and product:
        return f"{_hex(vendor.get('id'))}:{_hex(product.get('id'))}"
    adapter = source.first("adapter")
    return _plain(adapter.get("name") or adapter.get("wwpn")) if adapter else ""


def _address(source: Element) -> str:
    """The address of a PCI, USB or SCSI device, or the UUID of a mediated one."""
    address = source.first("address")
    if address is None:
        return ""
    if address.get("uuid"):
        return _plain(address.get("uuid"))
    if address.get("device"):
        return f"{_plain(address.get('bus'))}.{_plain(address.get('device'))}"
    if address.get("slot"):
        domain, bus, slot, function = (_hex(address.get(key)) for key in _PCI)
        return f"{domain or '0000'}:{bus}:{slot}.{function}"
    if address.get("unit"):
        return ":".join(_plain(address.get(key, "0")) for key in _SCSI)
    return ""


def _place(source: Element) -> str:
    for kind, name in (("protocol", "name"), ("pool", "volume"), ("host", "service")):
        if source.get(kind) and source.get(name):
            return f"{_plain(source.get(kind))}:{_plain(source.get(name))}"
    named = [source.get(place) for place in _PLACES]
    named += [source.text_of(tag) for tag in _INSIDE]
    return _plain(next(filter(None, named), ""))


def _of_its_own(device: Element) -> str:
    """What a device without a source names: its backend's device, a path, a name."""
    inside = device.first("backend/device")
    named = (
        inside.get("path") if inside else "",
        device.text_of("backend"),
        device.text_of("path"),
        device.get("name"),
        device.get("path"),
        device.get("socket"),
    )
    return _plain(next(filter(None, named), ""))


def _hex(text: str) -> str:
    return _plain(text.removeprefix("0x"))


def _plain(text: str) -> str:
    return _UNSEEN.sub("?", text[:_MOST])
