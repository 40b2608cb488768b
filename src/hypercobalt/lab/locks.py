"""Who may change a lab: one command at a time, and its supervisor while no command does.

Source: flock(2); a lock ends with the process that holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Generator
from typing import BinaryIO, Final

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.state import Layout, why

_RESTART_SECONDS: Final = 100  # longer than the supervisor gives a start
_LOCK_STEP: Final = 0.05


def refuse_beside_another(layout: Layout) -> None:
    """Refuse early what `locked` will refuse: before anything is checked, asked or installed.

    Raises:
        LabError: another command is changing the lab, or its lock cannot be read.
    """
    try:
        file = layout.lock.open("rb")
    except FileNotFoundError:
        return
    except OSError as exc:
        raise LabError(f"data directory {layout.data}: {why(exc)}") from exc
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _busy(layout) from None


@contextlib.contextmanager
def locked(layout: Layout, *, ends: bool = False) -> Generator[None]:
    """Be the only command that changes the lab, and wait until its supervisor starts nothing.

    Args:
        layout: of the lab.
        ends: do not wait for the supervisor, which ends with the lab.

    Raises:
        LabError: another one is at it, or the directory cannot be written.
    """
    try:
        layout.data.mkdir(parents=True, exist_ok=True)
        file = layout.lock.open("ab")
    except OSError as exc:
        raise LabError(f"data directory {layout.data}: {why(exc)}") from exc
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = True
        else:  # `down` takes the file away while it holds it
            busy = not layout.lock.exists() or not layout.lock.samefile(f"/dev/fd/{file.fileno()}")
        if busy:
            raise _busy(layout)
        if ends:
            yield
            return
        with layout.restart_lock.open("ab") as restarts:
            _wait_for(restarts, layout)
            yield


def _busy(layout: Layout) -> LabError:
    return LabError(
        f"another command is changing the lab in {layout.data}; wait for it to end, or name "
        "another directory with --data"
    )


def _wait_for(file: BinaryIO, layout: Layout) -> None:
    end = time.monotonic() + _RESTART_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                raise LabError(
                    f"the supervisor of the lab in {layout.data} is starting a process for more "
                    f"than {_RESTART_SECONDS} s; see {layout.log / 'supervisor.log'}"
                ) from None
            time.sleep(_LOCK_STEP)  # a wait in the kernel has no deadline
        else:
            return


@contextlib.contextmanager
def restarting(layout: Layout) -> Generator[bool]:
    """Keep commands from changing the lab while its supervisor starts a process.

    Yields:
        Whether none is changing it.
    """
    with layout.restart_lock.open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
