"""Rules decide by no message: see `tests/unit/messages.py`."""

from __future__ import annotations

from tests.unit.messages import decide_twice

decide_twice("ovs_agent")
