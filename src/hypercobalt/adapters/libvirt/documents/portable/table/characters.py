"""Serial ports, consoles and channels: nothing of the host but what libvirt makes for them.

A pseudoterminal is the kernel's, the socket of a channel is libvirt's own. The socket of a serial
port replaces a file, and a log is appended to by root: both must be named after the domain.
"""

from __future__ import annotations

from typing import Final

from hypercobalt.adapters.libvirt.documents.portable.rules import (
    Choice,
    Dropped,
    Entry,
    Named,
    Optional,
    Rule,
    element,
)
from hypercobalt.adapters.libvirt.documents.portable.table.common import DEVICE
from hypercobalt.adapters.libvirt.documents.portable.values import SMALL, TYPE, form, one_of

_LOG: Final = Optional(
    Rule(
        attributes={"file": Named.LOG},
        required=frozenset({"file"}),
        fixed={"append": "on"},  # without it virtlogd empties the file
    ),
    noted=True,
)
_PORT_NAME: Final = form("the name of a channel", r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_SERIAL_TARGET: Final = element(
    {"model": element(name=TYPE, required="name")}, type=TYPE, port=SMALL
)
_CHANNEL_TARGET: Final = element(
    type=one_of("virtio"), name=_PORT_NAME, required="type", dropped="state"
)
_SOCKET: Final = element(mode=one_of("bind"), path=Named.SOCKET, required="mode path")


def _device(type_: str, target: Rule, source: Entry | None = None) -> Rule:
    children: dict[str, Entry] = {**DEVICE, "target": target, "log": _LOG}
    children["source"] = source or Dropped()
    return element(children, type=one_of(type_), required="type", dropped="tty")


def _port(most: int) -> Choice:
    return Choice(
        "type",
        {
            "pty": _device("pty", _SERIAL_TARGET),
            "null": _device("null", _SERIAL_TARGET),
            "unix": _device("unix", _SERIAL_TARGET, _SOCKET),
        },
        most=most,
    )


PORT: Final = _port(8)
CHANNEL: Final = Choice(
    "type",
    {type_: _device(type_, _CHANNEL_TARGET) for type_ in ("pty", "null", "unix", "spicevmc")},
    most=32,
)
