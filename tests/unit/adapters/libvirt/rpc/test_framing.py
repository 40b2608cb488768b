"""Messages in a stream of bytes."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.adapters.libvirt.rpc import protocol
from hypercobalt.adapters.libvirt.rpc.errors import ProtocolError
from hypercobalt.adapters.libvirt.rpc.framing import Frames, Message, MessageKind, Status

MESSAGES = st.builds(
    Message,
    st.just(protocol.REMOTE),
    st.just(1),
    st.integers(-1, 500),
    st.sampled_from(MessageKind),
    st.integers(0, 2**32 - 1),
    st.sampled_from(Status),
    st.binary(max_size=40),
)


@given(st.lists(MESSAGES, max_size=4), st.integers(1, 60))
def test_messages_arrive_however_the_stream_is_cut(messages: list[Message], size: int) -> None:
    stream, frames = b"".join(message.pack() for message in messages), Frames()

    pieces = (stream[at : at + size] for at in range(0, len(stream), size))
    assert [found for piece in pieces for found in frames.feed(piece)] == messages


@pytest.mark.parametrize("length", [0, 4, 27, 33_554_437, 2**32 - 1])
def test_a_length_that_no_message_has_is_refused(length: int) -> None:
    with pytest.raises(ProtocolError, match=f"a message of {length} bytes"):
        list(Frames().feed(struct.pack(">I", length)))


def test_a_message_that_no_daemon_takes_is_not_made() -> None:
    with pytest.raises(ProtocolError, match="longer than libvirt's"):
        Message(protocol.REMOTE, 1, 1, MessageKind.CALL, 1, Status.OK, bytes(33_554_432)).pack()
