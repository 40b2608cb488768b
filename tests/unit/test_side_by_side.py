"""Targets of a Makefile beside each other, on a small one in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import ParamSpec

import pytest
from tests.pages import ROOT
from tests.side_by_side import IDLE, MOST, SideBySide, Ticks, may_begin

P = ParamSpec("P")
LOOP = "trap 'echo interrupted; exit 1' INT; touch begun; while :; do read -t 0.1 <> pipe; done"
MAKEFILE = f"""
SHELL := bash
first second third: ; @echo output of $@
pipe: ; @mkfifo pipe
endless: pipe ; @{LOOP}
broken: ; @until [ -e begun ]; do :; done; echo output of broken; exit 3
"""


def begin(folder: Path, *targets: str) -> subprocess.Popen[str]:
    (folder / "Makefile").write_text(MAKEFILE)
    return subprocess.Popen(
        [sys.executable, "-m", "tests.side_by_side", *targets],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )


def run(folder: Path, *targets: str) -> tuple[int, str]:
    process = begin(folder, *targets)
    output, _ = process.communicate()
    return process.returncode, output


def test_every_target_is_run_and_shown(tmp_path: Path) -> None:
    code, output = run(tmp_path, "first", "second", "third")
    assert code == 0
    assert output.count("output of ") == 3
    assert "all done" in output


def test_a_failure_interrupts_the_others_is_shown_last_and_begins_no_more(tmp_path: Path) -> None:
    code, output = run(tmp_path, "endless", "broken", "first")
    assert code == 2  # make's
    assert output.index("interrupted\n") < output.index("output of broken")
    assert "output of first" not in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_is_handed_to_every_target(tmp_path: Path, number: signal.Signals) -> None:
    process = begin(tmp_path, "endless", "first")
    while not (tmp_path / "begun").exists():
        assert process.poll() is None
    process.send_signal(number)
    output, _ = process.communicate()
    assert process.returncode == 128 + signal.SIGINT
    assert "interrupted\n" in output


async def test_a_target_that_is_being_started_is_interrupted_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Makefile").write_text("endless: ; @sleep inf\n")
    monkeypatch.chdir(tmp_path)
    started, is_started, is_known = list[Process](), asyncio.Event(), asyncio.Event()

    def slowly(start: Callable[P, Awaitable[Process]]) -> Callable[P, Awaitable[Process]]:
        async def start_slowly(*arguments: P.args, **options: P.kwargs) -> Process:
            started.append(await start(*arguments, **options))
            is_started.set()
            await is_known.wait()
            return started[0]

        return start_slowly

    slow = slowly(asyncio.create_subprocess_exec)
    monkeypatch.setattr(asyncio, "create_subprocess_exec", slow)
    running = asyncio.create_task(SideBySide(tmp_path).run(["endless"]))
    await is_started.wait()
    running.cancel()
    asyncio.get_running_loop().call_later(0, is_known.set)
    try:
        with pytest.raises(asyncio.CancelledError):
            await running
        assert started[0].returncode is not None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(started[0].pid, signal.SIGKILL)


def test_a_third_target_begins_on_idle_cpus_only_and_never_a_fourth() -> None:
    begun = [[may_begin(running, idle) for running in range(6)] for idle in (0.0, IDLE, 1.0)]
    assert begun[0] == [True, True, False, False, False, False]
    assert begun[1] == begun[2] == [True] * MOST + [False] * (6 - MOST)


def test_idle_time_is_what_all_cpus_waited_of_all_their_time() -> None:
    before = Ticks.parse("cpu  100 0 50 800 40 5 5 0 7 7\ncpu0 1 2 3\n")
    after = Ticks.parse("cpu  160 0 60 820 50 5 5 0 9 9\ncpu0 1 2 3\n")
    assert before.idle_until(after) == pytest.approx(0.3)
    assert before.idle_until(before) == 0
