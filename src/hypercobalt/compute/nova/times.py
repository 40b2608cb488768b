"""Times as OpenStack writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def read_time(text: str | None) -> datetime | None:
    """A time in UTC, which most of Nova's do not say; None for none and for what is no time."""
    try:
        read = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read and read.tzinfo is None else read
