"""Lines of a journal that is followed over several requests: each exactly once. Pure.

A request may take ten minutes. The next one begins with the second of the last line, and what was
shown of that second is passed over: a journal grows at its end only, so these lines come again, in
the same order. If they do not (they have been removed, or too many came meanwhile), that is shown.

A captured host sends lines without an end, or any number of one second: long lines are shown in
parts, and of the lines of a second the newest are kept.

Source: journalctl(1), `short-iso`.
"""

from __future__ import annotations

import codecs
import math
import re
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from hypercobalt.adapters.host.journal import LINES

LONGEST: Final = 65_536
"""Characters of a line; a longer one is shown as several."""

_MOST: Final = 2**20
"""Characters of lines of one second that are kept, to know them again."""

_STAMP: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:?\d\d) ", re.ASCII)


class Text:
    """Makes text for a terminal out of what a journal holds: no character in it is obeyed."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text so far; a character that is cut off waits for its rest."""
        text = self._decoder.decode(data, final)
        return "".join(one if one in "\n\t" or one.isprintable() else "?" for one in text)


class Lines:
    """The lines of one or several requests.

    Attributes:
        notice: that lines may be missing; "" while none can be.
    """

    def __init__(self) -> None:
        self.notice = ""
        self._text = Text()
        self._rest = ""  # of a line whose end has not come
        self._last = ""  # time of the last line that was shown
        self._shown: _Newest = _Newest()  # lines of that time
        self._time = ""  # of the line before, in this request
        self._expected: list[str] = []  # lines that were shown, and come again
        self._again: list[str] = []  # lines of that time which have come again
        self._left = _MOST  # characters that may still come again

    def feed(self, data: bytes) -> str:
        """Whole lines to show, of the bytes that have come."""
        *whole, rest = (self._rest + self._text.feed(data)).split("\n")
        *more, self._rest = _parts(rest)
        parts = (part for line in whole for part in _parts(line))
        return "".join(f"{line}\n" for part in (*parts, *more) for line in self._take(part))

    def end(self) -> str:
        """The lines that remain to be shown after the last request."""
        rest = self._rest + self._text.feed(b"", final=True)
        return "".join(self._take(rest)) if rest else ""

    def resume(self, parameters: Mapping[str, str], seconds: float) -> dict[str, str]:
        """The parameters of the next request.

        Args:
            parameters: of the one that has ended.
            seconds: since it was sent; without any line, it is that time which is repeated.
        """
        self._text, self._rest, self._time = Text(), "", ""
        self._expected, self._again = self._expected or list(self._shown), []
        self._left = sum(map(_size, self._expected)) + _MOST
        found = _parsed(self._last)
        since = f"{math.ceil(seconds)}s" if found is None else f"{found:%Y-%m-%dT%H:%M:%SZ}"
        return {**parameters, "lines": str(LINES), "since": since}

    def _take(self, line: str) -> Iterator[str]:
        """The lines to show now that one has come."""
        if (found := _STAMP.match(line)) and _parsed(found[1]):
            self._time = found[1]  # a line without belongs to the one before
        if not self._expected:
            yield self._kept(line)
            return
        if self._time == self._last and self._left > 0:
            self._left -= _size(line)
            self._again.append(line)
            if self._again[-len(self._expected) :] == self._expected:
                self._expected = []
            return
        self.notice = f"lines between {self._last} and {self._time} may be missing, or come twice"
        missed, self._expected = self._again, []
        for one in (*missed, line):
            yield self._kept(one)

    def _kept(self, line: str) -> str:
        if self._time != self._last:
            self._last, self._shown = self._time, _Newest()
        self._shown.append(line)
        return line


class _Newest(deque[str]):
    """The newest lines, up to so many characters."""

    def __init__(self) -> None:
        super().__init__()
        self._held = 0

    def append(self, line: str) -> None:
        super().append(line)
        self._held += _size(line)
        while self._held > _MOST:
            self._held -= _size(self.popleft())


def _size(line: str) -> int:
    return len(line) + 64  # what an empty one takes as well


def _parts(line: str) -> list[str]:
    """A line as those that are shown: the same, in whatever pieces it comes."""
    return [line[at : at + LONGEST] for at in range(0, len(line), LONGEST)] or [""]


def _parsed(stamp: str) -> datetime | None:
    """A time of journalctl, in UTC."""
    try:
        return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S%z").astimezone(UTC)
    except (ValueError, OverflowError):
        return None
