"""Which of a pod's processes are looked for, and which were found.

What runs in a pod chooses its own command lines, and how many there are. So what cannot be read of
a pod does not take it from those of interest, nor does another command line: one that was whole
once stays of interest for as long as it has any process.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

Commands = tuple[tuple[str, ...], ...]

_MOST_TAKEN_APART: Final = 256  # command lines of a pod
_LONGEST_COMMAND: Final = 64 * 1024  # characters


@dataclass(frozen=True, slots=True)
class PodProcesses:
    """A pod that has processes of interest.

    Args:
        uid: of the pod.
        commands: command lines of its processes that name something of interest, sorted; of a pod
            that shows none any more those that it showed last, none if it showed none that can be
            read.
    """

    uid: str
    commands: Commands


@dataclass(frozen=True, slots=True)
class PodInterest:
    """What is looked for in command lines.

    Args:
        first: a word of the command line that makes a pod one of interest.
        then: what the program's name begins with that follows in such a pod.
    """

    first: str
    then: str

    def of(self, commands: Iterable[tuple[str, ...]]) -> Commands:
        """The command lines of interest; none without the first word."""
        found = sorted({one for one in commands if self._names(one)})
        return tuple(found) if any(self.first in one for one in found) else ()

    def read(self, lines: Iterable[str]) -> Commands | None:
        """The command lines of interest, of a pod's as systemd writes them; None: no such pod.

        All are searched, a few taken apart. A pod is of interest as well if one that has the first
        word anywhere cannot be taken apart, or comes after too many.
        """
        named = [line for line in lines if self.first in line or self.then in line]
        parsed = [words(line) for line in named[:_MOST_TAKEN_APART]]
        if found := self.of(parsed):
            return found
        unread = [line for line, one in zip(named, parsed, strict=False) if not one]
        unread += named[_MOST_TAKEN_APART:]
        return () if any(self.first in line for line in unread) else None

    def is_whole(self, commands: Iterable[tuple[str, ...]]) -> bool:
        """Whether what follows is there as well."""
        return any(_program(one).startswith(self.then) for one in commands)

    def _names(self, command: tuple[str, ...]) -> bool:
        return self.first in command or _program(command).startswith(self.then)


def _program(command: tuple[str, ...]) -> str:
    return command[0].rpartition("/")[2] if command else ""


class KnownPods:
    """The pods that were whole once, with the command lines that they showed last.

    Args:
        interest: what was looked for.
    """

    def __init__(self, interest: PodInterest) -> None:
        self.interest = interest
        self._shown: dict[str, Commands] = {}

    @property
    def uids(self) -> Set[str]:
        """Their UIDs."""
        return self._shown.keys()

    def remember(self, pods: Mapping[str, Commands]) -> None:
        """Take in pods that an earlier process has seen, by UID."""
        self._shown = dict(pods) | self._shown

    def forget(self, uids: Iterable[str]) -> None:
        """Forget pods that are gone."""
        for uid in uids:
            self._shown.pop(uid, None)

    def read(self, uid: str, lines: Sequence[str]) -> PodProcesses | None:
        """Return a pod by the command lines of all its processes; None: it is of no interest."""
        if not lines:
            return None
        commands = self.interest.read(lines)
        if commands is None:
            return self.unread(uid)
        if self.interest.is_whole(commands):
            self._shown[uid] = commands
        return PodProcesses(uid, commands or self._shown.get(uid, ()))

    def unread(self, uid: str) -> PodProcesses | None:
        """Return a pod whose processes are not shown; None: it was never whole."""
        shown = self._shown.get(uid)
        return None if shown is None else PodProcesses(uid, shown)


def words(command: str) -> tuple[str, ...]:
    """The words of a command line as systemd writes it, quoted for a shell; none if it is not."""
    if len(command) > _LONGEST_COMMAND:
        return ()
    try:
        return tuple(shlex.split(command))
    except ValueError:
        return ()
