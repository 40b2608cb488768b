"""Reads times as OpenStack writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def read_time(text: str | None) -> datetime | None:
    """Return a time in UTC, as most of Nova's have no zone; None for an empty or invalid one."""
    try:
        read = datetime.fromisoformat(text) if text else None
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read and read.tzinfo is None else read
