"""Lines of a journal reach a terminal as text only, each line once over several requests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hypercobalt.cli import agents
from hypercobalt.cli.log_lines import LONGEST, Lines, Text
from hypercobalt.cli.logs import logs
from hypercobalt.errors import HypercobaltError
from hypercobalt.runtime.client.pinned import Reply, TimeOverError

HOSTILE = "a\tb \x1b[2J\x1b]0;title\x07 c\r\x00d \x9b31m \u202egnp\u202c é ü\n"


def test_line_has_no_terminal_control() -> None:
    shown = Text().feed(HOSTILE.encode())
    assert shown == "a\tb ?[2J?]0;title? c??d ?31m ?gnp? é ü\n"


def test_a_character_that_is_cut_off_waits_for_its_rest() -> None:
    text, data = Text(), "é\n".encode()
    assert [text.feed(data[:1]), text.feed(data[1:])] == ["", "é\n"]
    assert text.feed(data[:1]) + text.feed(b"", final=True) == "\ufffd"


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_become_a_control_character(data: bytes, at: int) -> None:
    text = Text()
    shown = text.feed(data[:at]) + text.feed(data[at:]) + text.feed(b"", final=True)
    assert all(one in "\n\t" or one.isprintable() for one in shown)


def line(second: int, text: str) -> str:
    return f"2026-11-23T14:00:{second:02}+0100 kvm-1 t[1]: {text}\n"


def stamp(one: str) -> str:
    return one[:24]


TAKEN = st.tuples(st.integers(0, 5), st.sampled_from([0, 0, 1, 2]), st.sampled_from("xyz"))
JOURNALS = st.lists(TAKEN, max_size=12).map(
    lambda found: [
        (line(second, text), line(max(0, second - late), text))
        for second, late, text in sorted(found, key=lambda one: one[0])
    ]
)
"""Lines as they would be if each had been written when journald took it, and as they are."""


@given(JOURNALS, st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(1, 50))
def test_lines_over_several_requests_come_once_and_all(
    journal: list[tuple[str, str]], ends: list[int], piece: int
) -> None:
    """A request ends anywhere, in the middle of a line too; the journal grows meanwhile."""
    lines, shown, query = Lines(), "", {"since": ""}
    for number, end in enumerate([*sorted(ends), len(journal)]):
        there = journal[:end] if number < len(ends) else journal
        since = query["since"]
        if since.endswith("Z"):
            begin = f"2026-11-23T14:00:{since[17:19]}"
            there = [(taken, shows) for taken, shows in there if stamp(taken) >= begin]
        data = "".join(shows for _, shows in there).encode()
        data = data[: len(data) - 3] if number < len(ends) else data
        for at in range(0, len(data), piece):
            shown += lines.feed(data[at : at + piece])
        query = lines.resume({"since": since}, 600.0)
    assert shown == "".join(shows for _, shows in journal)
    assert lines.notice == ""


def test_line_without_an_end_is_shown_in_parts_and_not_kept() -> None:
    lines, shown = Lines(), ""
    for _ in range(16):
        shown += lines.feed(b"x" * 2**16)
    assert shown + lines.end() == ("x" * LONGEST + "\n") * (2**20 // LONGEST - 1) + "x" * LONGEST


@settings(max_examples=10)
@given(st.integers(0, 3 * LONGEST), st.integers(100, LONGEST))
def test_parts_of_a_long_line_are_the_same_however_it_comes(length: int, piece: int) -> None:
    data = b"x" * length + b"\n"
    parts = Lines()
    shown = "".join(parts.feed(data[at : at + piece]) for at in range(0, len(data), piece))
    assert shown == Lines().feed(data)


@pytest.mark.parametrize(("text", "many"), [(b"", 200), (b"x" * 2**13, 1)])
def test_lines_of_one_second_are_not_all_kept(
    monkeypatch: pytest.MonkeyPatch, text: bytes, many: int
) -> None:
    """Those of a captured host, also where others should come again."""
    monkeypatch.setattr("hypercobalt.cli.log_lines._MOST", 2**15)
    lines = Lines()
    for first in (b"a", b"b"):
        lines.resume({}, 600.0)
        for _ in range(50):
            lines.feed((first + text + b"\n") * many)
        kept = [*lines._shown, *lines._again, *lines._expected]
        assert sum(len(one) + 64 for one in kept) < 5 * 2**15
    assert lines.notice


def test_next_request_begins_with_the_second_of_the_last_line() -> None:
    lines = Lines()
    lines.feed((line(7, "a") + "  a second line of it\n" + line(8, "b")[:10]).encode())
    query = lines.resume({"unit": "libvirtd", "lines": "200", "follow": "true"}, 600.2)
    assert query == {
        "unit": "libvirtd",
        "lines": "10000",
        "follow": "true",
        "since": "2026-11-23T13:00:07Z",
    }
    again = line(7, "a") + "  a second line of it\n" + line(7, "new") + line(8, "b")
    assert lines.feed(again.encode()) == line(7, "new") + line(8, "b")


def test_request_without_a_line_is_repeated_over_its_time() -> None:
    lines = Lines()
    assert lines.resume({"lines": "0"}, 600.2)["since"] == "601s"
    assert lines.feed(line(7, "new").encode()) == line(7, "new")


def test_lines_that_do_not_come_again_are_noticed_and_what_comes_is_shown() -> None:
    lines = Lines()
    lines.feed((line(7, "a") + line(7, "b")).encode())
    lines.resume({}, 600.0)
    assert lines.feed((line(7, "b") + line(9, "c")).encode()) == line(7, "b") + line(9, "c")
    assert lines.notice == (
        "lines between 2026-11-23T14:00:07+0100 and 2026-11-23T14:00:09+0100 may be missing, "
        "or come twice"
    )


def test_request_that_ends_before_the_lines_have_come_again_forgets_none() -> None:
    lines = Lines()
    lines.feed((line(7, "a") + line(7, "b")).encode())
    lines.resume({}, 600.0)
    assert lines.feed(line(7, "a").encode()) == ""
    lines.resume({}, 600.0)
    assert lines.feed((line(7, "a") + line(7, "b") + line(7, "c")).encode()) == line(7, "c")
    assert lines.notice == ""


class Agent:
    """Answers each request with some text and an end."""

    def __init__(self, *answers: tuple[str, Exception | None]) -> None:
        self.answers, self.queries = list(answers), list[Mapping[str, str]]()

    @asynccontextmanager
    async def opened(
        self, *_: object, idle: float | None, kubeconfig: Path | None
    ) -> AsyncGenerator[Reply]:
        self.queries.append(_[3])  # type: ignore[arg-type]
        text, end = self.answers.pop(0)

        async def chunks() -> AsyncGenerator[bytes]:
            yield text.encode()
            if end is not None:
                raise end

        yield Reply("text/plain", chunks())


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that advances by ten minutes at each read."""
    seconds = iter(range(0, 600_000, 600))
    monkeypatch.setattr("hypercobalt.cli.logs.monotonic", lambda: float(next(seconds)))


OVER = TimeOverError("ended after 600 s, the longest that it may take")


@pytest.mark.usefixtures("waits")
def test_following_goes_on_with_another_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = line(7, "a"), line(7, "a") + line(9, "b")
    agent = Agent((first, OVER), (second, HypercobaltError("kvm-1 is gone")))
    monkeypatch.setattr(agents, "opened", agent.opened)
    assert logs("kvm-1", follow=True, unit="libvirtd") == 1
    found = capsys.readouterr()
    assert found.out == line(7, "a") + line(9, "b")
    assert found.err == "cobalt logs: kvm-1 is gone\n"
    assert [one["since"] for one in agent.queries[1:]] == ["2026-11-23T13:00:07Z"]
    assert {one["unit"] for one in agent.queries} == {"libvirtd"}


def test_request_that_is_over_at_once_is_not_repeated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent((line(7, "a"), OVER))
    monkeypatch.setattr(agents, "opened", agent.opened)
    assert logs("kvm-1", follow=True) == 1
    assert "ended after 600 s" in capsys.readouterr().err


@pytest.mark.usefixtures("waits")
def test_without_following_there_is_one_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Agent((line(7, "a") + "cut", None))
    monkeypatch.setattr(agents, "opened", agent.opened)
    assert logs("kvm-1") == 0
    assert capsys.readouterr().out == line(7, "a") + "cut"
