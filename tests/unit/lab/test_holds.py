"""Processes that a command has stopped."""

from __future__ import annotations

from pathlib import Path

from hypercobalt.lab.holds import Holds


def test_role_is_held_until_it_is_released(tmp_path: Path) -> None:
    holds = Holds(tmp_path / "holds")
    assert holds.held() == frozenset()
    for role in ("ovn/sb", "operator"):
        holds.hold(role)
    assert Holds(tmp_path / "holds").held() == {"ovn/sb", "operator"}
    holds.release("ovn/sb")
    holds.release("ovn/nb")
    assert holds.held() == {"operator"}
