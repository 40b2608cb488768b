"""A wait status in words."""

from __future__ import annotations

import pytest

from hypercobalt.lab.supervision.ends import describe


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "exit code 0"),
        (3 << 8, "exit code 3"),
        (9, "killed by SIGKILL"),
        (11 | 0x80, "killed by SIGSEGV"),
        (60, "killed by signal 60"),
    ],
)
def test_wait_status_is_described(status: int, text: str) -> None:
    assert describe(status) == text
