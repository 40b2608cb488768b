"""Marks of the rows that a capture by mirror makes: whose they are, and until when. Pure.

A client that may write to Open vSwitch's database may write any text here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OWNER: Final = "hypercobalt-capture"
"""Key of `external_ids`: name of the Node."""

EXPIRES: Final = "hypercobalt-expires"
"""Key of `external_ids`: seconds since 1970."""

MAKER: Final = "hypercobalt-process"
"""Key of `external_ids`: id and start of the process."""

_LONGEST: Final = 12  # digits of a time


def expiry_of(tags: Mapping[str, str]) -> float | None:
    """When a row counts as left over, in seconds since 1970.

    Args:
        tags: its `external_ids`.

    Returns:
        None for a row that no agent has made, 0 for one whose expiry cannot be read.
    """
    if OWNER not in tags:
        return None
    text = tags.get(EXPIRES, "")
    return float(text) if text.isascii() and text.isdigit() and len(text) <= _LONGEST else 0.0
