"""A launcher's process, known for as long as it lives and never taken for another one.

The process that listens may end while a child of it holds the connection, and its number goes to
another process: of another pod, or of the host. What is opened by the number would be of that one.
The directory of a process in /proc is of that process alone, and is empty once it has ended.

Source: pidfd_open(2), proc(5).
"""

from __future__ import annotations

import asyncio
import os
import select
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hypercobalt.virt.wire.client import LauncherError

UNSEEN: Final = "its process is in no PID namespace of this one; run virt-handler with hostPID"
"""Why the process of a peer has no number here."""


@dataclass(frozen=True, slots=True)
class HeldProcess:
    """Made by `held_process`.

    Attributes:
        number: its id, which may be that of another process once it has ended.
        descriptor: a pidfd of it.
        opened: a descriptor of its directory in /proc.
    """

    number: int
    descriptor: int
    opened: int

    @property
    def lives(self) -> bool:
        poll = select.poll()
        poll.register(self.descriptor, select.POLLIN)
        return not poll.poll(0)

    @contextmanager
    def directory(self) -> Generator[Path]:
        """A path of its directory in /proc, also after the process is held no longer."""
        own = os.dup(self.opened)
        try:
            yield Path(f"/proc/{os.getpid()}/fd/{own}")
        finally:
            os.close(own)

    async def ends(self, seconds: float) -> bool:
        """Whether it ends within that time."""
        loop, over = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(self.descriptor, over.set)
        try:
            async with asyncio.timeout(seconds):
                await over.wait()
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(self.descriptor)
        return True


@contextmanager
def held_process(number: int) -> Generator[HeldProcess]:
    """Hold a process.

    Raises:
        LauncherError: it has ended, or cannot be followed.
    """
    if number <= 0:
        raise LauncherError(UNSEEN)
    with ExitStack() as files:
        try:
            descriptor = os.pidfd_open(number)
            files.callback(os.close, descriptor)
            opened = os.open(f"/proc/{number}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            files.callback(os.close, opened)
        except (ProcessLookupError, FileNotFoundError) as exc:
            raise LauncherError(f"process {number} of the launcher has ended") from exc
        except OSError as exc:
            raise LauncherError(f"process {number} of the launcher: {exc.strerror}") from exc
        process = HeldProcess(number, descriptor, opened)
        if not process.lives:  # so the directory may be of the next one with its number
            raise LauncherError(f"process {number} of the launcher has ended")
        yield process
