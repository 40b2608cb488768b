"""What the host's operating system says of itself.

Source: org.freedesktop.systemd1(5), org.freedesktop.login1(5), org.freedesktop.hostname1(5),
os-release(5).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class UnitState:
    """One systemd unit, in systemd's words.

    Args:
        name: `libvirtd.service`.
        load: LoadState: loaded, not-found, bad-setting, error, masked.
        active: ActiveState: active, reloading, inactive, failed, activating, deactivating,
            maintenance, refreshing.
        sub: SubState: running, exited, dead, auto-restart, …
        result: Result of a service's last run: success, exit-code, signal, timeout, …
    """

    name: str
    load: str
    active: str
    sub: str = ""
    result: str = ""


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """os-release, hostnamed and the kernel; "" where the host does not say.

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
