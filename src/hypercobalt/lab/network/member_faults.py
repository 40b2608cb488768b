"""Faults of a host's data cables: kept in a file, so that they outlive a reboot."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path


class MemberFault(StrEnum):
    """A way in which a member of a host's bond fails."""

    UNPLUGGED = "unplugged"
    """No link at either end."""
    SILENT = "silent"
    """The links are up; the rack neither speaks LACP on it nor forwards."""


class MemberFaults:
    """The faults of one host's data cables.

    Args:
        file: a line for each member that has one; its folder is made when it is first written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> Mapping[str, MemberFault]:
        """The faults by member; whole cables have none."""
        try:
            lines = self._file.read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            return {}
        pairs = (line.split() for line in lines)
        return {member: MemberFault(fault) for member, fault in pairs}

    def write(self, faults: Mapping[str, MemberFault]) -> None:
        """Replace the faults of all members at once."""
        if not faults:
            self._file.unlink(missing_ok=True)
            return
        self._file.parent.mkdir(exist_ok=True)
        new = self._file.with_suffix(".new")
        new.write_text("".join(f"{member} {fault}\n" for member, fault in sorted(faults.items())))
        new.replace(self._file)
