"""A VirtualMachineInstance of which no pod or no domain can be made.

Admission refuses nearly all of them. The others were stored before a rule existed, or came past
admission: their values are hostile, so the builders check what they put into paths and documents.
"""

from __future__ import annotations

import re
from typing import Final

from hypercobalt.errors import TerminalError
from hypercobalt.text import printable

MOST_VCPUS: Final = 512
"""vCPUs of one guest, as admission has it."""

_SEGMENT: Final = re.compile(r"(?!\.{1,2}\Z)[^/\x00-\x1f\x7f-\x9f]{1,255}")
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class UnfitVMIError(TerminalError):
    """The builders refuse a VirtualMachineInstance.

    Args:
        field: path from the root of the object, such as `spec.domain.cpu.cores`.
        problem: what is wrong with its value.
    """

    def __init__(self, field: str, problem: str) -> None:
        self.field = printable(field)  # a name of a map is part of it
        super().__init__(f"{self.field}: {problem}", reason="Invalid")


def segment(text: str, field: str) -> str:
    """`text` as one segment of a path: it cannot leave its directory.

    Raises:
        UnfitVMIError: it has a slash or a control character, is `..`, empty or too long.
    """
    if _SEGMENT.fullmatch(text) is None:
        raise UnfitVMIError(field, f"{text[:64]!r} cannot be the name of a file")
    return text


def label(text: str, field: str) -> str:
    """`text` as a DNS label: the name of a volume, a disk or a host.

    Raises:
        UnfitVMIError: it is none.
    """
    if _LABEL.fullmatch(text) is None:
        raise UnfitVMIError(field, f"{text[:64]!r} is no DNS label")
    return text
