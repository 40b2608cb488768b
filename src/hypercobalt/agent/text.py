"""Text of the host, which may be any bytes, in the forms that the API takes. Pure."""

from __future__ import annotations

import re

_NOT_IN_TYPES = re.compile(r"[^A-Za-z0-9_.-]")


def clean(text: str) -> str:
    """`text` as JSON can carry it: bytes that were no text, kept as surrogates, become `?`."""
    return text.encode("utf-8", "replace").decode()


def condition_type(unit: str) -> str:
    """The type of a unit's condition: its name, with `.` for what a type cannot have (`@`, `:`)."""
    return _NOT_IN_TYPES.sub(".", unit).lstrip("-._")
