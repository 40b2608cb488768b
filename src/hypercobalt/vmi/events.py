"""An Event about a VirtualMachineInstance, before somebody records it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class VMIEvent:
    """An Event for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str
