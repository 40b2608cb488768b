"""`cobalt lab up` beside another command that changes the same lab."""

from __future__ import annotations

from pathlib import Path

import pytest

from hypercobalt.cli.lab import up
from hypercobalt.lab.locks import locked
from hypercobalt.lab.state import Layout

TOO_MANY = 100_000
"""Hosts for which no machine has the memory."""


def test_second_up_is_refused_before_memory_or_packages_are_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(Layout.at(tmp_path)):
        code = up(hosts=TOO_MANY, openstack=True, data=tmp_path)
    assert code == 1
    assert "another command is changing the lab" in capsys.readouterr().err
