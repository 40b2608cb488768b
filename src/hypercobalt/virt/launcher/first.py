"""The first process of the pod: forwards signals, reaps orphans, and leaves no QEMU behind.

It forks before anything else is loaded. What it forks is the launcher; what libvirtd starts becomes
its own child, since QEMU detaches. When the launcher ends, however it ends, whatever is left gets
SIGTERM, so that a QEMU writes out what it holds of its disks. With this process the kernel ends
everything else in its PID namespace.

Source: pid_namespaces(7); KubeVirt, cmd/virt-launcher-monitor.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Final

_FORWARDED: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT)
_LEFT_OVER: Final = 10.0
"""Seconds for what is left to end by itself."""
_FIRST: Final = 1
_BY_SIGNAL: Final = 128


def above(run: Callable[[], int]) -> int:
    """Fork: run the launcher in the child, and return its exit code in the parent.

    Args:
        run: the launcher; its result is the exit code.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
        return run()

    def forward(_number: int, _frame: FrameType | None) -> None:
        os.kill(child, signal.SIGTERM)  # not reaped yet, so the number is still its own

    for number in _FORWARDED:
        signal.signal(number, forward)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    code = _wait_for(child)
    if os.getpid() == _FIRST:
        _end_the_rest()
    return code


def _wait_for(child: int) -> int:
    """Reap whatever ends, until the launcher has; its exit code, as a shell has it."""
    while True:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
        if ended is None or ended.si_pid == child:
            break
        os.waitpid(ended.si_pid, 0)
    for number in _FORWARDED:
        signal.signal(number, signal.SIG_IGN)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code < 0:
        sys.stderr.write(f"virt-launcher was ended by signal {-code}\n")
    return code if code >= 0 else _BY_SIGNAL - code


def _end_the_rest() -> None:
    """Ask everything else in the PID namespace to end, and wait for that for a while."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    end = time.monotonic() + _LEFT_OVER
    try:
        os.kill(-1, signal.SIGTERM)
        while (left := end - time.monotonic()) > 0:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            signal.sigtimedwait({signal.SIGCHLD}, left)
    except (ChildProcessError, ProcessLookupError):
        return  # nothing is left
