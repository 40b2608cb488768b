"""Which lines of the journal a request may have."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.host.journal import KERNEL, LINES, UNITS, LineSelection, arguments
from hypercobalt.agent.diagnostics.use import RefusedUseError
from hypercobalt.node_agent.logs import order_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("parameters", "order"),
    [
        ({}, LineSelection()),
        ({"unit": "libvirtd"}, LineSelection("libvirtd")),
        ({"unit": "libvirtd.service"}, LineSelection("libvirtd")),
        ({"unit": "kernel", "lines": "0", "follow": "true"}, LineSelection(KERNEL, 0, follow=True)),
        ({"lines": str(LINES), "follow": "false"}, LineSelection(lines=LINES)),
        ({"since": "1h30m"}, LineSelection(since=NOW - timedelta(hours=1.5))),
        (
            {"since": "2026-01-30T12:00:00+02:00"},
            LineSelection(since=datetime(2026, 1, 30, 10, tzinfo=UTC)),
        ),
    ],
)
def test_a_request_is_read(parameters: dict[str, str], order: LineSelection) -> None:
    assert order_of(parameters, NOW) == order


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("unit", one) for one in ("sshd", "*", "libvirtd*", "-x", "../x", "LIBVIRTD", "a=b")),
        *(("lines", one) for one in ("-1", str(LINES + 1), "all", "+5", "٣", "1" * 5000)),
        *(("since", one) for one in ("yesterday", "@0", "10", "9" * 40 + "h", "2026-01-31")),
        *(("follow", one) for one in ("yes", "1", "")),
    ],
)
def test_another_value_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(RefusedUseError, match=rf"^{name} "):
        order_of({name: value}, NOW)


@given(st.dictionaries(st.sampled_from(["unit", "lines", "since", "follow"]), st.text(max_size=40)))
def test_no_text_of_a_request_reaches_journalctl(parameters: dict[str, str]) -> None:
    try:
        order = order_of(parameters, NOW)
    except RefusedUseError:
        return
    units = "|".join(UNITS)
    allowed = re.compile(
        r"--no-pager|--quiet|--output=short-iso|--root=/|--lines=[0-9]{1,5}|--follow"
        rf"|--since=@-?[0-9]+\.[0-9]{{6}}|_TRANSPORT=kernel|--unit=({units})\.service"
    )
    assert all(allowed.fullmatch(word) for word in arguments(order))
