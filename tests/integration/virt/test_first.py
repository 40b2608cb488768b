"""The first process of a pod, in a PID namespace of its own: signals, orphans, what is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integration.virt.pod import until

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("unshare") is None, reason="it needs root and unshare"
)
_ROOM = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
_HEAD = """
import os, signal, subprocess, sys, time
from pathlib import Path
from hypercobalt.virt.launcher import first
first._LEFT_OVER = 1.0
place = Path(sys.argv[1])
def run():
{body}
sys.exit(first.above(run))
"""


def start(body: str, place: Path) -> subprocess.Popen[bytes]:
    """A first process whose launcher does this."""
    lines = "\n".join(f"    {line}" for line in body.strip().splitlines())
    program = _HEAD.format(body=lines)
    return subprocess.Popen(
        [*_ROOM, sys.executable, "-c", program, str(place)], stderr=subprocess.DEVNULL
    )


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("return 0", 0),
        ("return 7", 7),
        ("os.kill(os.getpid(), signal.SIGKILL)", 128 + 9),
        ("os.kill(os.getpid(), signal.SIGSEGV)", 128 + 11),
    ],
)
def test_exit_code_is_that_of_the_launcher(body: str, code: int, tmp_path: Path) -> None:
    assert start(body, tmp_path).wait(20) == code


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGQUIT])
def test_signals_arrive_as_sigterm(number: signal.Signals, tmp_path: Path) -> None:
    body = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(3))
(place / "ready").touch()
time.sleep(20)
"""
    process = start(body, tmp_path)
    until((tmp_path / "ready").exists, "the launcher")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), number)
    assert process.wait(20) == 3


def test_orphans_are_reaped_while_the_launcher_runs(tmp_path: Path) -> None:
    body = """
for _ in range(20):
    subprocess.run(["sh", "-c", "sleep 0.01 & exit 0"])
end = time.monotonic() + 10
while len(list(Path("/proc").glob("[0-9]*"))) > 2 and time.monotonic() < end:
    time.sleep(0.01)
return len(list(Path("/proc").glob("[0-9]*")))
"""
    assert start(body, tmp_path).wait(20) == 2


def test_what_is_left_may_end_in_good_order(tmp_path: Path) -> None:
    body = """
script = 'trap "sleep 0.2; touch $0/ended; exit" TERM; touch $0/ready; while :; do sleep 0.01; done'
subprocess.Popen(["setsid", "sh", "-c", script, str(place)])
while not (place / "ready").exists():
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert start(body, tmp_path).wait(20) == 128 + 9
    assert (tmp_path / "ended").exists()


def test_what_does_not_end_goes_with_the_first_process(tmp_path: Path) -> None:
    body = """
script = 'trap "" TERM; touch $0/ready; while :; do sleep 0.01; done'
subprocess.Popen(["setsid", "sh", "-c", script, str(place)])
while not (place / "ready").exists():
    time.sleep(0.01)
return 5
"""
    assert start(body, tmp_path).wait(20) == 5
    command = str(tmp_path).encode()
    until(lambda: not any(command in words(one) for one in Path("/proc").iterdir()), "the end")


def words(process: Path) -> bytes:
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""
