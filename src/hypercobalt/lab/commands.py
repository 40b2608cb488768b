"""Commands of the machine, run to their end with a deadline, leaving no child behind.

A command runs in a session of its own: when its time is up, or when the caller is cancelled, the
whole group is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab.errors import CommandError

DEADLINE = timedelta(seconds=30)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def cobalt_command() -> Path:
    """The `cobalt` of this installation; the hosts see it by the same path."""
    return Path(sys.executable).parent / "cobalt"


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


async def execute(
    argv: Sequence[str],
    *,
    stdin: str | bytes | None = None,
    within: timedelta = DEADLINE,
    env: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command and wait for its end.

    Args:
        argv: program and arguments; no shell.
        stdin: what it reads; None is nothing.
        within: after which it is killed.
        env: its whole environment; None is ours.

    Raises:
        CommandError: it cannot be started or was not done in time.
    """
    data = stdin.encode() if isinstance(stdin, str) else stdin
    try:
        process = await _start(argv, takes_input=data is not None, env=env)
    except OSError as exc:
        raise CommandError(argv, 127, f"{exc.strerror}") from exc
    try:
        async with asyncio.timeout(within.total_seconds()):
            out, err = await process.communicate(data)
    except TimeoutError:
        raise CommandError(argv, None, f"{within.total_seconds():g} s") from None
    finally:
        await _end(process)
    return Finished(
        process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")
    )


async def _start(
    argv: Sequence[str], *, takes_input: bool, env: Mapping[str, str] | None
) -> Process:
    pipe = asyncio.subprocess.PIPE
    starting = asyncio.create_task(
        asyncio.create_subprocess_exec(
            *argv,
            stdin=pipe if takes_input else asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            env=env,
            start_new_session=True,
        ),
        name=f"start {argv[0]}",
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # One that is half started cannot be ended: asyncio would lose sight of it.
        with contextlib.suppress(OSError):
            await _end(await starting)
        raise


async def _end(process: Process) -> None:
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.shield(process.wait())


async def run(
    *argv: str,
    stdin: str | bytes | None = None,
    within: timedelta = DEADLINE,
    env: Mapping[str, str] | None = None,
) -> str:
    """Run a command of the machine and return its output.

    Raises:
        CommandError: it cannot be started, failed, or was not done in time.
    """
    done = await execute(argv, stdin=stdin, within=within, env=env)
    if done.code:
        raise CommandError(argv, done.code, done.stderr or done.stdout)
    return done.stdout
