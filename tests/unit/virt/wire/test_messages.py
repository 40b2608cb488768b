"""Messages are read as they were written, by newer and older ones too."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.virt.wire.frames import FrameError
from hypercobalt.virt.wire.messages import (
    AnyCall,
    DomainInterface,
    DomainMessage,
    DomainReport,
    PausedBy,
    Ping,
    Problem,
    ReplyMessage,
    Sync,
    TapDevice,
    decode_call,
    decode_from_launcher,
    decode_message,
    encode,
    encode_call,
)
from hypercobalt.vmi.phases import LifeCycle, LifeReason

REPORT = DomainReport(
    LifeCycle.PAUSED,
    LifeReason.OTHER,
    PausedBy.USER,
    datetime(2026, 1, 2, tzinfo=UTC),
    datetime(2026, 1, 3, tzinfo=UTC),
    "pc-q35-7.2",
    emulated=True,
    interfaces=(DomainInterface("default", "02:00:00:00:00:01", "tap0"),),
)
SYNC = Sync(msgspec.Raw(b'{"a":1}'), {"default": TapDevice("tap0", mtu=1500)}, emulation=True)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "call", "type", "vmi", "taps", "domain", "state"]), inner
        )
    ),
    max_leaves=9,
)


@pytest.mark.parametrize(
    "call",
    [SYNC, *(kind() for kind in AnyCall.__args__ if kind is not Sync)],
    ids=lambda call: type(call).__name__,
)
def test_calls_are_read_as_written(call: AnyCall) -> None:
    message = decode_message(encode_call(7, call))
    assert (message.id, decode_call(message)) == (7, call)


@pytest.mark.parametrize(
    "message",
    [
        ReplyMessage(1),
        ReplyMessage(2, Problem.FAILED, "why"),
        ReplyMessage(3, domain=REPORT),
        DomainMessage(REPORT),
        DomainMessage(DomainReport()),
    ],
)
def test_answers_are_read_as_written(message: ReplyMessage | DomainMessage) -> None:
    assert decode_from_launcher(encode(message)) == message


def test_fields_of_a_newer_version_are_skipped() -> None:
    newer = b'{"id":1,"trace":"x","call":{"call":"Ping","urgent":true}}'
    assert decode_call(decode_message(newer)) == Ping()
    assert decode_from_launcher(
        b'{"type":"domain","domain":{"state":"Running","uptime":3}}'
    ) == DomainMessage(DomainReport(LifeCycle.RUNNING))


@pytest.mark.parametrize("field", ["shutdown_since", "marked_since"])
def test_time_without_a_zone_is_no_time(field: str) -> None:
    content = f'{{"type":"domain","domain":{{"{field}":"2026-01-02T00:00:00"}}}}'
    with pytest.raises(FrameError, match=field):
        decode_from_launcher(content.encode())


def test_unknown_call_is_no_call_but_a_message() -> None:
    message = decode_message(b'{"id":4,"call":{"call":"Migrate"}}')
    assert message.id == 4
    with pytest.raises(FrameError, match="Migrate"):
        decode_call(message)


@given(st.binary(max_size=64) | JSON.map(msgspec.json.encode))
def test_any_content_is_a_message_or_an_error(content: bytes) -> None:
    with suppress(FrameError):
        decode_call(decode_message(content))
    with suppress(FrameError):
        decode_from_launcher(content)


def test_deep_nesting_is_an_error() -> None:
    deep = b'{"id":1,"call":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    with pytest.raises(FrameError):
        decode_call(decode_message(deep))


def test_what_a_launcher_wrote_is_quoted_in_part_only() -> None:
    content = b'{"type":"domain","domain":{"state":"' + b"x" * 500_000 + b'"}}'
    with pytest.raises(FrameError, match="a message that cannot be read: Invalid enum") as raised:
        decode_from_launcher(content)
    assert len(str(raised.value)) < 1000


def test_report_of_more_nics_than_a_guest_can_have_is_an_error() -> None:
    content = b'{"type":"domain","domain":{"interfaces":[' + b"{}," * 300_000 + b"{}]}}"
    with pytest.raises(FrameError, match="interfaces"):
        decode_from_launcher(content)
