"""The host's hardware watchdog: reboots the host unless it is fed in time.

Source: Linux, Documentation/watchdog/watchdog-api.rst, include/uapi/linux/watchdog.h.
"""

from __future__ import annotations

import array
import fcntl
import os
from datetime import timedelta
from pathlib import Path
from typing import Final

from hypercobalt.errors import ConfigurationError

_SET_TIMEOUT: Final = 0xC0045706  # WDIOC_SETTIMEOUT
_FOOD: Final = b"\0"
_DISARM: Final = b"V"  # "magic close"; a driver with nowayout goes on all the same


class Watchdog:
    """An armed watchdog.

    Args:
        path: of the device, such as `/dev/watchdog`.
        timeout: the host reboots when it is not fed for so long; a device may round it.

    Raises:
        ConfigurationError: there is no such device, it is in use, or refuses the timeout.
    """

    def __init__(self, path: Path, timeout: timedelta) -> None:
        try:
            self._device = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigurationError(f"watchdog {path}: {error.strerror}") from error
        seconds = array.array("i", [int(timeout.total_seconds())])
        try:
            fcntl.ioctl(self._device, _SET_TIMEOUT, seconds, True)
        except OSError as error:
            os.close(self._device)
            text = f"watchdog {path}: timeout {seconds[0]} s refused: {error.strerror}"
            raise ConfigurationError(text) from error
        self.timeout = timedelta(seconds=seconds[0])

    def feed(self) -> None:
        """Let the host live for one more timeout."""
        os.write(self._device, _FOOD)

    def disarm(self) -> None:
        """Stop in good order: the host goes on without being fed."""
        os.write(self._device, _DISARM)
        os.close(self._device)
