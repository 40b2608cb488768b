"""What `cobalt drill` prints at its end."""

from __future__ import annotations

import pytest

from hypercobalt.cli.drill import summary
from hypercobalt.drills.record import Result

GOOD, BAD = Result("vm-crash", "", 100), Result("host-cut", "", 200, "it ran twice")


@pytest.mark.parametrize(
    ("results", "words"),
    [
        ((GOOD, GOOD), "2 of 2 drills passed in 3 min"),
        ((GOOD, BAD), "1 of 2 drills passed in 5 min; failed: host-cut"),
        ((GOOD,), "1 of 2 drills passed in 2 min; not run: 1"),
        ((), "0 of 2 drills passed in 0 min; not run: 2"),
    ],
)
def test_the_last_line_counts_all_drills(results: tuple[Result, ...], words: str) -> None:
    assert summary(results, 2) == words
