"""A signal as text of evidence."""

from __future__ import annotations

import pytest
from tests.unit.ha.signs import NOON, U1

from hypercobalt.ha.incidents.signals import Kind, Signal


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "IOError"),
        ({"action": "pause"}, "IOError (pause)"),
        ({"reason": "enospc"}, "IOError (enospc)"),
        (
            {"action": "pause", "reason": "enospc", "about": "/a.img"},
            "IOError (pause, enospc, /a.img)",
        ),
        ({"missed": True}, "IOError, found at a resync"),
        ({"action": "pause", "missed": True}, "IOError (pause), found at a resync"),
    ],
)
def test_evidence_names_the_known_fields_of_a_signal(fields: dict[str, object], text: str) -> None:
    signal = Signal(kind=Kind.IO_ERROR, instance=U1, name="vm", at=NOON, **fields)  # type: ignore[arg-type]
    assert signal.text == text
