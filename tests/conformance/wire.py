"""Names for decoded JSON: its shape is what the scenarios are about, so no type describes it."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
Body: TypeAlias = dict[str, Any]
