"""Notices the end of QEMU itself, whatever libvirtd says.

A libvirtd that was just started again reports no event of a QEMU that ends before it has connected
to that; it shows the domain as running until then, and as off afterwards.

Source: pidfd_open(2); libvirt, src/qemu/qemu_process.c (qemuProcessReconnect).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path


class EmulatorWatch:
    """Watches one process at a time.

    Args:
        runtime: directory in which libvirt has the domain's process id.
        ended: called when the process has ended.

    Attributes:
        gone: the process that was watched last has ended.
    """

    def __init__(self, runtime: Path, ended: Callable[[], None]) -> None:
        self._directory, self._ended = runtime / "qemu/run", ended
        self._descriptor: int | None = None
        self.gone = False

    def follow(self, name: str) -> None:
        """Watch the QEMU of a domain that is alive, unless that is done already.

        Args:
            name: of the domain.
        """
        if self._descriptor is not None or self.gone:
            return
        try:
            text = (self._directory / f"{name}.pid").read_text()
            self._descriptor = os.pidfd_open(int(text))
        except ProcessLookupError:
            self._over()
        except (OSError, ValueError):
            return  # libvirt writes it while it starts the domain; the next reading finds it
        else:
            asyncio.get_running_loop().add_reader(self._descriptor, self._over)

    def close(self) -> None:
        """Watch no longer."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _over(self) -> None:
        self.close()
        self.gone = True
        self._ended()
