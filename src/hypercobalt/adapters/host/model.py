"""What the host's operating system reports.

Source: org.freedesktop.systemd1(5), org.freedesktop.login1(5), org.freedesktop.hostname1(5),
os-release(5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from hypercobalt.errors import HypercobaltError

_UNIT_TYPES: Final = "service|socket|target|mount|automount|swap|timer|path|slice|scope|device"
_UNIT_NAME = re.compile(rf"[A-Za-z0-9:_.\\-]+(@[A-Za-z0-9:_.\\-]+)?\.({_UNIT_TYPES})", re.ASCII)
_MAX_UNIT_NAME = 255


class UnitNameError(HypercobaltError, ValueError):
    """A text that cannot be the name of a systemd unit."""


def check_unit_name(name: str) -> None:
    """Refuse what is no name of one unit: systemd.unit(5). A template is none.

    Raises:
        UnitNameError: the name is not valid; the message has the reason.
    """
    if len(name) > _MAX_UNIT_NAME or not _UNIT_NAME.fullmatch(name):
        raise UnitNameError(
            f"systemd unit {name[:64]!r}: must be a name such as libvirtd.service or "
            f"getty@tty1.service, of at most {_MAX_UNIT_NAME} characters"
        )


@dataclass(frozen=True, slots=True)
class UnitState:
    """One systemd unit, in systemd's words.

    Args:
        name: `libvirtd.service`.
        load: LoadState: loaded, not-found, bad-setting, error, masked.
        active: ActiveState: active, reloading, inactive, failed, activating, deactivating,
            maintenance, refreshing.
        sub: SubState: running, exited, dead, auto-restart, …
    """

    name: str
    load: str
    active: str
    sub: str = ""


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """os-release, hostnamed and the kernel; "" where the host has none.

    Args:
        firmware_date: when the firmware was made, UTC.
        features: GARDENLINUX_FEATURES.
    """

    pretty_version: str = ""
    version: str = ""
    variant_id: str = ""
    kernel_name: str = ""
    kernel_release: str = ""
    kernel_version: str = ""
    kernel_command_line: str = ""
    hardware_vendor: str = ""
    hardware_model: str = ""
    hardware_serial: str = ""
    firmware_version: str = ""
    firmware_vendor: str = ""
    firmware_date: datetime | None = None
    commit_id: str = ""
    features: tuple[str, ...] = ()
