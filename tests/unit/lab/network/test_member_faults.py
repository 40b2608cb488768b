"""Faults of a host's data cables, as they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from hypercobalt.lab.network.member_faults import MemberFault, MemberFaults

UNPLUGGED, SILENT = MemberFault.UNPLUGGED, MemberFault.SILENT


@pytest.mark.parametrize(
    "faults", [{}, {"data0": UNPLUGGED}, {"data0": SILENT, "data1": UNPLUGGED}]
)
def test_faults_are_read_as_they_were_written_the_last_time(
    tmp_path: Path, faults: Mapping[str, MemberFault]
) -> None:
    kept = MemberFaults(tmp_path / "faults" / "hc0-1")
    kept.write({"data1": SILENT})
    kept.write(faults)
    assert MemberFaults(tmp_path / "faults" / "hc0-1").read() == faults


def test_a_host_that_nothing_was_done_to_has_no_faults(tmp_path: Path) -> None:
    assert MemberFaults(tmp_path / "faults" / "hc0-1").read() == {}
