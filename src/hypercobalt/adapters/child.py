"""Programs that run for one request and end with it, whatever happens to the agent.

A program has its own process group, which is killed at the end. When the agent itself is killed,
the kernel kills the program: each process of the chain gets a signal when the one above it dies.
`setpriv` requests that signal last, because the kernel forgets it with a change of user; `timeout`
ends the program when the agent is frozen.

Source: PR_SET_PDEATHSIG(2const), setpriv(1), timeout(1).
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
from asyncio import StreamReader
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

MARK: Final = "HYPERCOBALT_PARENT"
"""Variable in the environment of each program: the process id of the agent that started it."""

NOBODY: Final = 65534
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_DYING: Final = ("setpriv", "--pdeathsig", "KILL")
_SHOWN: Final = 4096  # bytes of a complaint
_GRACE: Final = 1.0  # seconds for a program to write what it has, after SIGTERM


def bounded(argv: Sequence[str], most: timedelta) -> tuple[str, ...]:
    """A command line that is killed with the agent, and after a time.

    Args:
        argv: program and arguments.
        most: rounded up to seconds.
    """
    seconds = str(int(-(-most.total_seconds() // 1)))
    return (*_DYING, "--", "timeout", "--signal=KILL", seconds, *argv)


def unprivileged(argv: Sequence[str], *capabilities: str) -> tuple[str, ...]:
    """A command line that runs as the user `nobody`.

    Args:
        argv: program and arguments.
        capabilities: what it keeps, as setpriv names them: `net_raw`.
    """
    kept = ",".join(("-all", *(f"+{one}" for one in capabilities)))
    # Bounding set and no-new-privs: no program that it could start gets more.
    return (
        *_DYING,
        *(f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--no-new-privs"),
        *(f"--bounding-set={kept}", f"--inh-caps={kept}", f"--ambient-caps={kept}", "--"),
        *argv,
    )


class Child:
    """A program that runs; made by `running`.

    Args:
        process: the first of its group, without pipes of its own.
        out: what it prints.
        problems: what it prints on standard error.
    """

    def __init__(self, process: Process, out: StreamReader, problems: StreamReader) -> None:
        self._process = process
        self.out, self.problems = out, problems

    def send(self, what: signal.Signals) -> None:
        """Send a signal to the program's group, unless the program has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, what)

    async def end(self) -> int:
        """Wait for the program's end, once it has printed everything, and return its exit code."""
        try:
            async with asyncio.timeout(_GRACE):
                return await self._process.wait()
        except TimeoutError:
            return await self.kill()

    async def kill(self) -> int:
        """Kill the program, wait for its end, and return its exit code."""
        self.send(signal.SIGKILL)
        return await asyncio.shield(self._process.wait())

    async def complaint(self) -> str:
        """Return the last line of its standard error; only for a program that has ended."""
        text = (await self.problems.read(_SHOWN)).decode(errors="replace").strip()
        return text.splitlines()[-1] if text else ""


@asynccontextmanager
async def running(argv: Sequence[str], *, stdin: int = DEVNULL) -> AsyncGenerator[Child]:
    """Run a program; its group is killed when the context is left.

    Args:
        argv: program and arguments.
        stdin: file descriptor that it reads.

    Raises:
        OSError: it cannot be started.
    """
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdin=stdin,
        stdout=PIPE,
        stderr=PIPE,
        env={"PATH": _PATH, "LC_ALL": "C", MARK: str(os.getpid())},
        start_new_session=True,
    )
    if process.stdout is None or process.stderr is None:
        raise OSError(errno.EPIPE, "no pipes")
    child = Child(process, process.stdout, process.stderr)
    try:
        yield child
    finally:
        await child.kill()
