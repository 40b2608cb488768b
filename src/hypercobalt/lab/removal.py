"""Removal of what a lab has on the machine, once its hosts and processes are gone."""

from __future__ import annotations

import contextlib
import shutil

from hypercobalt.lab import mounts
from hypercobalt.lab import state as records
from hypercobalt.lab.network import bridge
from hypercobalt.lab.state import LabState, Layout


async def throw_away(layout: Layout, state: LabState) -> None:
    """Remove the network and the files of a lab without hosts.

    Raises:
        HypercobaltError: something does not go; calling again goes on from there.
    """
    for name in records.OWNED:  # the directory itself may be a mount, and hold more, of a person's
        await mounts.release(layout.data / name)
    await bridge.remove(state)
    for name in records.OWNED:
        shutil.rmtree(layout.data / name, ignore_errors=True)
    records.forget(layout, state)
    forget(layout)


def forget(layout: Layout) -> None:
    """Remove the lab's own files in its directory, and the directory if nothing else is there."""
    for file in (layout.new_state, layout.restart_lock, layout.lock):
        file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        layout.data.rmdir()  # stays when a person has put something there
