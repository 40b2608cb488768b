"""The record of restarts, as one file: the supervisor writes it, `cobalt lab status` reads it."""

from __future__ import annotations

import msgspec

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.state import Layout, why
from hypercobalt.lab.supervision.rules import RestartRecord, Restarts


def load(layout: Layout) -> RestartRecord:
    """Restarts by role; a record that is missing or damaged is empty: it only informs."""
    try:
        return msgspec.json.decode(layout.restarts.read_bytes(), type=dict[str, Restarts])
    except (OSError, msgspec.DecodeError):
        return {}


def save(layout: Layout, record: RestartRecord) -> None:
    """Replace the file at once, whole.

    Raises:
        LabError: it cannot be written.
    """
    fresh = layout.restarts.with_suffix(".new")
    try:
        layout.supervision.mkdir(exist_ok=True)
        fresh.write_bytes(msgspec.json.encode(record))
        fresh.replace(layout.restarts)
    except OSError as exc:
        raise LabError(f"{layout.restarts} cannot be written: {why(exc)}") from exc
