"""Which of a pod's processes are looked for, and which were found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodProcesses:
    """A pod that has processes of interest.

    Args:
        uid: of the pod.
        commands: command lines of its processes that name something of interest, sorted.
    """

    uid: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class PodInterest:
    """What is looked for in command lines.

    Args:
        first: a word of the command line that makes a pod one of interest.
        then: what the program's name begins with that follows in such a pod.
    """

    first: str
    then: str

    def of(self, commands: Iterable[tuple[str, ...]]) -> tuple[tuple[str, ...], ...]:
        """The command lines of interest; none without the first word."""
        found = sorted({one for one in commands if self._names(one)})
        return tuple(found) if any(self.first in one for one in found) else ()

    def may_name(self, line: str) -> bool:
        """Whether a command line has what is looked for, before it is taken apart."""
        return self.first in line or self.then in line

    def is_whole(self, commands: Iterable[tuple[str, ...]]) -> bool:
        """Whether what follows is there as well."""
        return any(_program(one).startswith(self.then) for one in commands)

    def _names(self, command: tuple[str, ...]) -> bool:
        return self.first in command or _program(command).startswith(self.then)


def _program(command: tuple[str, ...]) -> str:
    return command[0].rpartition("/")[2] if command else ""
