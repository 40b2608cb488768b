"""Verdicts on manifests that ask one thing each are KubeVirt's, but for a table of differences.

Apart from the other recorded cases: quick enough to be run for each mutant of a rule.
"""

from __future__ import annotations

import pytest
from tests.unit.vmi.differences import DIFFERENCES
from tests.unit.vmi.verdicts import PLAIN, unexplained


@pytest.mark.parametrize("group", PLAIN)
def test_verdict_on_one_question_is_the_recorded_one(group: str) -> None:
    assert unexplained(group, DIFFERENCES) == {}
