"""coverage/show and memory/show.

Source: Open vSwitch's lib/coverage.c and lib/memory.c.
"""

from __future__ import annotations

import re
from typing import Final

_EVENT: Final = re.compile(r"^(\w+) .* total: (\d{1,20})$", re.MULTILINE)
_USE: Final = re.compile(r"(\S[^:\n]*):(\d{1,20})(?:\s|$)")


def parse_coverage(text: str) -> dict[str, int]:
    """Totals by event of the reply to `coverage/show`; an event that never happened is absent."""
    return {found[1]: int(found[2]) for found in _EVENT.finditer(text)}


def parse_memory(text: str) -> dict[str, int]:
    """Numbers by what they count out of the reply to `memory/show`, such as `udpif keys`.

    A daemon that has just started reports nothing yet.
    """
    return {found[1]: int(found[2]) for found in _USE.finditer(text)}
