"""When a server may still have something to deliver: what its threads do."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conformance.captured.virtual_time import Threads

_ECHO = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
_BUSY = "print(flush=True)\nwhile True: pass"


@contextmanager
def _child(code: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        try:
            yield child
        finally:
            child.kill()


def _echo(child: subprocess.Popen[str]) -> None:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write("x\n")
    child.stdin.flush()
    assert child.stdout.readline() == "x\n"


def _at_rest(threads: Threads) -> object:
    while (found := threads.asleep()) is None or threads.asleep() != found:
        pass
    return found


def test_thread_that_ran_between_two_looks_shows_it_though_it_sleeps_at_both() -> None:
    with _child(_ECHO) as child:
        threads = Threads([child.pid])
        _echo(child)
        before = _at_rest(threads)
        assert _at_rest(threads) == before
        _echo(child)
        assert _at_rest(threads) != before
        threads.close()


def test_process_that_computes_is_not_at_rest_and_one_that_is_gone_is() -> None:
    with _child(_BUSY) as child:
        threads = Threads([child.pid])
        assert child.stdout is not None
        child.stdout.readline()
        assert threads.asleep() is None
    assert threads.asleep() == {}
    threads.close()
