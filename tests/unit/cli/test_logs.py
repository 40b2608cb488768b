"""What a journal holds reaches a terminal as text only."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.cli.logs import Text

HOSTILE = "a\tb \x1b[2J\x1b]0;title\x07 c\r\x00d \x9b31m \u202egnp\u202c é ü\n"


def test_nothing_in_a_line_is_obeyed_by_a_terminal() -> None:
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
