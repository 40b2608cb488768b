"""Calls libvirt's own Python binding, in a process of its own (`oracle_process`)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

PYTHON = "/usr/bin/python3"
_MODULE = Path("/usr/lib/python3/dist-packages/libvirt.py")
_PROCESS = Path(__file__).with_name("oracle_process.py")


def missing_packages() -> tuple[str, ...]:
    """Debian packages that the oracle needs and that are not installed."""
    return () if _MODULE.exists() else ("python3-libvirt",)


class RefusedError(Exception):
    """libvirt's code, domain, level and message."""


class Oracle:
    """The process; see there for its calls."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def call(self, call: str, *arguments: object) -> Any:  # noqa: ANN401  what libvirt answers
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(msgspec.json.encode((call, *arguments)) + b"\n")
        self._process.stdin.flush()
        answer = msgspec.json.decode(self._process.stdout.readline())
        if "error" in answer:
            raise RefusedError(*answer["error"])
        return answer["answer"]


@contextmanager
def oracle(uri: str) -> Iterator[Oracle]:
    """An oracle of one daemon."""
    with subprocess.Popen(
        [PYTHON, str(_PROCESS), uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        yield Oracle(process)
        assert process.stdin
        process.stdin.close()
        process.terminate()
