"""Targets of a Makefile beside each other, on a small one in a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pages import ROOT
from tests.side_by_side import IDLE, MOST, Ticks, may_begin

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


def test_a_third_target_begins_on_idle_cpus_only_and_never_a_fourth() -> None:
    begun = [[may_begin(running, idle) for running in range(6)] for idle in (0.0, IDLE, 1.0)]
    assert begun[0] == [True, True, False, False, False, False]
    assert begun[1] == begun[2] == [True] * MOST + [False] * (6 - MOST)


def test_idle_time_is_what_all_cpus_waited_of_all_their_time() -> None:
    before = Ticks.parse("cpu  100 0 50 800 40 5 5 0 7 7\ncpu0 1 2 3\n")
    after = Ticks.parse("cpu  160 0 60 820 50 5 5 0 9 9\ncpu0 1 2 3\n")
    assert before.idle_until(after) == pytest.approx(0.3)
    assert before.idle_until(before) == 0
