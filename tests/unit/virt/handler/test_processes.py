"""A process is held by what only it has; its number may go to another one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hypercobalt.virt.handler.processes import held_process
from hypercobalt.virt.wire.client import LauncherError

LAST = Path("/proc/sys/kernel/ns_last_pid")


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def sleeper_with(number: int) -> subprocess.Popen[bytes]:
    """A process with a number that is free."""
    for _ in range(50):
        LAST.write_text(str(number - 1))
        found = sleeper()
        if found.pid == number:
            return found
        found.kill()
        found.wait()
    pytest.skip("others start too many processes here")


def test_directory_is_empty_after_the_end_though_another_process_has_the_number() -> None:
    first = sleeper()
    with held_process(first.pid) as process, process.directory() as directory:
        assert (directory / "stat").read_text().startswith(f"{first.pid} ")
        assert (directory / "ns/net").exists()
        assert process.lives
        first.kill()
        first.wait()
        assert not process.lives
        try:
            second = sleeper_with(first.pid)
        except OSError:
            pytest.skip("the kernel lets nobody choose numbers here")
        try:
            assert Path(f"/proc/{first.pid}/stat").exists()
            with pytest.raises(ProcessLookupError):
                (directory / "stat").read_text()
            with pytest.raises(OSError, match="ns/net"):
                (directory / "ns/net").open()
        finally:
            second.kill()
            second.wait()


def test_process_that_has_ended_cannot_be_held() -> None:
    gone = sleeper()
    gone.kill()
    gone.wait()
    with pytest.raises(LauncherError, match="has ended"), held_process(gone.pid):
        pass


async def test_end_is_waited_for_within_a_time() -> None:
    one = sleeper()
    with held_process(one.pid) as process:
        assert not await process.ends(0.01)
        one.kill()
        assert await process.ends(10)
        assert not process.lives  # also before anybody has waited for it
    one.wait()


def test_process_of_another_pid_namespace_needs_one_setting() -> None:
    with pytest.raises(LauncherError, match="run virt-handler with hostPID"), held_process(0):
        pass
