"""Outputs that take nothing: one line at most, and never a stack trace."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

COBALT = Path(sys.executable).with_name("cobalt")
PRINTING = [("--help",), ("crds",), ("lab", "--help"), ("drill",), ("--version",)]
FULL = b"cobalt%b: standard output: No space left on device\n"

printing = pytest.mark.parametrize("words", PRINTING, ids=" ".join)


def run(words: tuple[str, ...], redirection: str) -> tuple[int, bytes, bytes]:
    """Run a command with its files as a shell redirects them."""
    script = f'exec "$0" "$@" {redirection}'
    done = subprocess.run(["/bin/sh", "-c", script, COBALT, *words], capture_output=True)  # noqa: PLW1510
    return done.returncode, done.stdout, done.stderr


@printing
def test_a_full_disk_is_named_in_one_line(words: tuple[str, ...]) -> None:
    code, _, text = run(words, ">/dev/full")
    assert (code, text) in ((1, FULL % b""), (1, FULL % b" drill"))


@printing
def test_a_closed_output_takes_everything(words: tuple[str, ...]) -> None:
    assert run(words, ">&-") == (0, b"", b"")
    assert run(words, ">&- 2>&- <&-") == (0, b"", b"")


@printing
def test_errors_that_cannot_be_printed_change_nothing(words: tuple[str, ...]) -> None:
    code, shown, _ = run(words, "2>/dev/full")
    assert (code, bool(shown)) == (0, True)


def test_an_error_that_cannot_be_printed_keeps_its_exit_code() -> None:
    words = ("crds", "--kind", "Pod")
    assert [run(words, to)[0] for to in ("2>/dev/full", "2>&-", ">/dev/full")] == [2, 2, 2]


@printing
def test_a_reader_that_has_left_ends_the_command_quietly(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([COBALT, *words], stdout=writing, stderr=subprocess.PIPE)  # noqa: PLW1510
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_no_file_that_is_opened_later_becomes_the_output(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("x")
    run(("apiserver", "--data", str(tmp_path / "data"), "--token-auth-file", str(tokens)), ">&-")
    assert tokens.read_text() == "x"
