"""Settings of a launcher, as the runtime of its pod passes them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

import msgspec

from hypercobalt.errors import ConfigurationError
from hypercobalt.vmi.paths import PodPaths

DRIVERS: Final = "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver"
"""Where Debian has libvirt's drivers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherSettings:
    """One launcher.

    Attributes:
        namespace: of its VMI.
        name: of its VMI.
        uid: of its VMI; calls about another one are refused.
        grace_seconds: G+15: how long virt-handler has to end the guest once the pod must end.
        qemu_timeout_seconds: how long a domain may take to appear.
        handlers: user ids that may connect to the command socket.
        paths: directories of the pod.
        cache: directory with the capability cache of the host; "" lets libvirtd make its own.
        drivers: directory of libvirt's drivers.
        log_level: the lowest that is logged, as `logging` counts.
    """

    namespace: str
    name: str
    uid: str
    grace_seconds: float = 45
    qemu_timeout_seconds: float = 240
    handlers: tuple[int, ...] = (0,)
    paths: PodPaths = field(default_factory=PodPaths)
    cache: str = ""
    drivers: str = DRIVERS
    log_level: int = logging.INFO


def encode_settings(settings: LauncherSettings) -> str:
    """Write settings as the argument of the launcher's process; they hold no secret."""
    return msgspec.json.encode(settings).decode()


def decode_settings(text: str) -> LauncherSettings:
    """Read what `encode_settings` wrote.

    Raises:
        ConfigurationError: it did not.
    """
    try:
        return msgspec.json.decode(text, type=LauncherSettings)
    except msgspec.DecodeError as exc:
        raise ConfigurationError(f"settings {text[:64]!r}: {exc}") from exc
