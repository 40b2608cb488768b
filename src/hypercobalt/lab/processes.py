"""Processes of a lab that outlive, or may outlive, the command that started them.

Each carries a mark in its environment: the lab's id and a role, such as `host/kvm-1`. The processes
of a lab are those that carry its mark, whatever died in between: no list of process ids can be out
of date, and an id that the kernel gave to another process is never signalled, because signals go
through a pidfd whose mark was read after it was opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from hypercobalt.lab.commands import run
from hypercobalt.lab.errors import LabError

MARK = "HYPERCOBALT_LAB"
_PROC = "/proc"
# Fields of proc_pid_stat(5), counted after the command's name.
_BEGUN, _START_CODE, _ENV_START = 22 - 3, 26 - 3, 50 - 3
_TAIL = 1000  # characters
_BLOCK = 1 << 16
_STOPPING = timedelta(seconds=5)  # milliseconds, unless a disk does not answer
_ENDING = timedelta(seconds=20)  # killed processes are gone long before, also on a busy machine


@dataclass(frozen=True, slots=True)
class Marked:
    """A running process that belongs to a lab."""

    pid: int
    role: str


def mark(lab_id: str, role: str) -> str:
    """`VARIABLE=value`: in a process's environment it makes the process belong to a lab."""
    return f"{MARK}={lab_id} {role}"


def environment(lab_id: str, role: str = "command") -> dict[str, str]:
    """Our environment with a mark, for a command that changes the machine.

    Should we be killed while it works, `down` ends it before it looks at what there is.
    """
    return {**os.environ, MARK: f"{lab_id} {role}"}


async def spawn(
    argv: Sequence[str],
    *,
    lab_id: str,
    role: str,
    log: Path,
    env: Mapping[str, str] | None = None,
) -> int:
    """Start a marked process without a parent, its output appended to a file.

    Returns:
        Its process id.

    Raises:
        LabError: it ended at once; the message has the end of its log.
        CommandError: it cannot be started.
    """
    variables = dict(os.environ if env is None else env)
    variables[MARK] = f"{lab_id} {role}"
    # The shell gives the file to a process that setsid has already made an orphan.
    script = 'exec setsid --fork "$@" >>"$0" 2>&1 </dev/null'
    await run("/bin/sh", "-c", script, str(log), *argv, env=variables)
    found = find(lab_id, role)
    if not found:
        raise LabError(f"{role}: {argv[0]} ended at once: {tail(log)}")
    return found[0].pid


def tail(log: Path) -> str:
    """The end of a log, for an error's message."""
    try:
        return log.read_text(errors="replace")[-_TAIL:].strip() or f"{log} is empty"
    except OSError as exc:
        return f"{log}: {exc.strerror}"


def find(lab_id: str, role: str | None = None) -> tuple[Marked, ...]:
    """The running processes of a lab, the oldest first; those of one role when it is given.

    A child has the mark of its parent until it executes a program, and may have a smaller id: the
    kernel begins again from the smallest. Its namespaces may be others already.
    """
    found = (Marked(pid, known) for pid in pids() if (known := _role(pid, lab_id)) is not None)
    wanted = (process for process in found if role is None or process.role == role)
    return tuple(sorted(wanted, key=lambda process: (_begun(process.pid), process.pid)))


class Oldest:
    """The oldest process of each role of a lab.

    All processes of the machine are looked at where none of a role is known, and then those of all
    roles are. From then on one look at each suffices: while it lives, no other can be older.
    """

    def __init__(self, lab_id: str) -> None:
        self._lab_id = lab_id
        self._known: dict[str, tuple[Marked, int]] = {}

    def find(self, role: str) -> Marked | None:
        """The process, if one of the role runs now."""
        return self.running((role,)).get(role)

    def running(self, roles: Collection[str]) -> dict[str, Marked]:
        """The processes of these roles that run now, by role."""
        living = {role: found for role in roles if (found := self._living(role))}
        if all(role in living for role in roles):
            return living
        known = self._look()
        return {role: known[role][0] for role in roles if role in known}

    def _living(self, role: str) -> Marked | None:
        if role not in self._known:
            return None
        process, begun = self._known[role]
        is_same = _role(process.pid, self._lab_id) == role and _begun(process.pid) == begun
        return process if is_same else None

    def _look(self) -> dict[str, tuple[Marked, int]]:
        oldest: dict[str, Marked] = {}
        for process in find(self._lab_id):
            oldest.setdefault(process.role, process)
        self._known = {role: (process, _begun(process.pid)) for role, process in oldest.items()}
        return self._known


def pids() -> Iterator[int]:
    """Every process id of the machine, ascending."""
    with os.scandir(_PROC) as entries:
        found = sorted(int(entry.name) for entry in entries if entry.name.isdigit())
    yield from found


def _role(pid: int, lab_id: str) -> str | None:
    start = f"{MARK}={lab_id} ".encode()
    environment = b"\0" + _environment(pid)
    if (found := environment.find(b"\0" + start)) < 0:
        return None
    value, _, _ = environment[found + 1 + len(start) :].partition(b"\0")
    return value.decode(errors="replace")


def _environment(pid: int) -> bytes:
    """What a process has been given; nothing when it is gone, or not ours to read.

    While a process is in execve(2), which takes long on a busy machine, it shows none: it is looked
    at again until nothing changed meanwhile.
    """
    folder = f"{_PROC}/{pid}"
    try:
        program = None
        while not (found := _content(f"{folder}/environ")):
            before, program = program, _program(folder)
            if program == before and program[0] != b"0":
                break
            os.sched_yield()
    except OSError:
        return b""
    return found


def _program(folder: str) -> tuple[bytes, bytes]:
    """Where the code of a process begins and where its environment; 0 for the code during exec."""
    Path(folder, "exe").readlink()  # neither a kernel thread nor a dead process has one
    fields = _content(f"{folder}/stat").rpartition(b")")[2].split()
    return fields[_START_CODE], fields[_ENV_START]


def _content(file: str) -> bytes:
    """A file of /proc: hundreds are read to find one process, and `Path` takes thrice as long."""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        content = b""
        while part := os.read(descriptor, _BLOCK):
            content += part
        return content
    finally:
        os.close(descriptor)


def _begun(pid: int) -> int:
    """When a process began, in ticks since the boot; after all others when it is gone."""
    try:
        return int(_content(f"{_PROC}/{pid}/stat").rpartition(b")")[2].split()[_BEGUN])
    except OSError:
        return sys.maxsize


def command(pid: int) -> str:
    """The kernel's name of a process or thread: the first 15 characters of its program's name.

    Raises:
        OSError: it is gone.
    """
    return _content(f"{_PROC}/{pid}/comm").decode(errors="replace").rstrip("\n")


def state(pid: int) -> str | None:
    """The kernel's letter for what a process does (proc(5)); None when it is gone."""
    try:
        stat = _content(f"{_PROC}/{pid}/stat")
    except OSError:
        return None
    return stat.rpartition(b")")[2].split()[0].decode()


def is_stopped(pid: int) -> bool:
    """Whether a process was stopped by a signal: it does nothing until SIGCONT."""
    return state(pid) == "T"


async def kill(lab_id: str, wanted: Callable[[Marked], bool] = lambda _: True) -> None:
    """Kill the selected processes of a lab until none is left.

    Raises:
        LabError: one does not end, for example because it waits for a dead disk.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _ENDING.total_seconds()
    while left := [process for process in find(lab_id) if wanted(process)]:
        if loop.time() > deadline:
            names = ", ".join(f"{process.role} ({process.pid})" for process in left)
            raise LabError(f"killed processes do not end: {names}")
        with contextlib.ExitStack() as stack:
            opened = {process.pid: _open(stack, process.pid) for process in left}
            still = {process.pid for process in find(lab_id)}
            alive = [fd for pid, fd in opened.items() if fd is not None and pid in still]
            for fd in alive:
                _signal(fd, signal.SIGKILL)
            await all_ended(alive, timedelta(seconds=2))


def _open(stack: contextlib.ExitStack, pid: int) -> int | None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return None
    stack.callback(os.close, fd)
    return fd


def _signal(pidfd: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)


def send(process: Marked, lab_id: str, number: int) -> bool:
    """Send a signal to a process of the lab, and to no other that has its id now.

    Returns:
        Whether it was still there.
    """
    with contextlib.ExitStack() as stack:
        pidfd = _open(stack, process.pid)
        if pidfd is None or _role(process.pid, lab_id) != process.role:
            return False
        _signal(pidfd, number)
        return True


async def stop(process: Marked, lab_id: str) -> None:
    """Stop a process of the lab where it is; return when it does nothing any more.

    Raises:
        LabError: it goes on, for example because it waits for a dead disk.
    """
    if not send(process, lab_id, signal.SIGSTOP):
        return
    try:
        async with asyncio.timeout(_STOPPING.total_seconds()):
            # It stops when it leaves the kernel, which notifies its parent alone.
            while (state(process.pid) or "T") not in "TZX":  # noqa: ASYNC110 - no event for us
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise LabError(f"{process.role} ({process.pid}) does not stop") from None


async def all_ended(pidfds: Iterable[int], within: timedelta) -> bool:
    """Wait until the processes behind these descriptors have ended; False when time is up."""
    try:
        async with asyncio.timeout(within.total_seconds()):
            for fd in pidfds:
                await _readable(fd)
    except TimeoutError:
        return False
    return True


async def ended(pid: int, within: timedelta) -> bool:
    """Wait until a process has ended; False when time is up."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return await all_ended([fd], within)
    finally:
        os.close(fd)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)
