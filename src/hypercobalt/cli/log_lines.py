"""Lines of a journal that is followed over several requests: each exactly once. Pure.

A request may take ten minutes. The next one begins with the latest second of which a line was
shown, and what was shown from that line on is passed over, with all before it: a journal grows at
its end only, so these lines come again, in the same order. If they do not (they have been removed,
or too many came meanwhile), that is shown.

A line shows when it was written, and a request begins by when journald has taken it: a moment
later, and seconds on a busy host. So lines of earlier seconds may come again before those that are
expected, and lines of an earlier second may follow those of a later one.

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
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from hypercobalt.adapters.host.journal import LINES

LONGEST: Final = 65_536
"""Characters of a line; a longer one is shown as several."""

_MOST: Final = 2**20
"""Characters of lines of one second that are kept, to know them again."""

_LATE: Final = timedelta(minutes=1)
"""How long journald may take for a line; what is older was written after the clock was set back."""

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
        self._last = _NEVER  # time of the latest line that was shown
        self._shown: _Newest = _Newest()  # lines from that one on
        self._time = _NEVER  # of the line before, in this request
        self._expected: list[str] = []  # lines that were shown, and come again
        self._again: list[str] = []  # lines up to that time which have come again
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
        self._text, self._rest, self._time = Text(), "", _NEVER
        self._expected, self._again = self._expected or list(self._shown), []
        self._left = sum(map(_size, self._expected)) + _MOST
        known = self._last.at > _NEVER.at
        since = f"{self._last.at:%Y-%m-%dT%H:%M:%SZ}" if known else f"{math.ceil(seconds)}s"
        return {**parameters, "lines": str(LINES), "since": since}

    def _take(self, line: str) -> Iterator[str]:
        """The lines to show now that one has come."""
        if (found := _STAMP.match(line)) and (at := _parsed(found[1])):
            self._time = _Stamp(at, found[1])  # a line without belongs to the one before
        if not self._expected:
            yield self._kept(line)
            return
        if self._time.at <= self._last.at and self._left > 0:
            self._left -= _size(line)
            self._again.append(line)
            if self._again[-len(self._expected) :] == self._expected:
                self._expected = []
            return
        between = f"{self._last.text} and {self._time.text}"
        self.notice = f"lines between {between} may be missing, or come twice"
        missed, self._expected = self._again, []
        for one in (*missed, line):
            yield self._kept(one)

    def _kept(self, line: str) -> str:
        since = self._time.at - self._last.at
        if since > timedelta(0) or since < -_LATE:
            self._last, self._shown = self._time, _Newest()
        self._shown.append(line)
        return line


class _Stamp(NamedTuple):
    """When a line was written, and how the journal shows that."""

    at: datetime
    text: str


_NEVER: Final = _Stamp(datetime.min.replace(tzinfo=UTC), "")


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
