"""Frames are read however they are cut, and nothing else is."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.virt.wire.frames import LONGEST, FrameError, frame, read_frame


def read_all(data: bytes) -> list[bytes]:
    """Contents of the frames in a stream that ends."""

    async def read() -> list[bytes]:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        found: list[bytes] = []
        while (content := await read_frame(reader)) is not None:
            found.append(content)
        return found

    return asyncio.run(read())


@given(st.lists(st.binary(min_size=1, max_size=200), max_size=5))
def test_frames_are_read_as_they_were_made(contents: list[bytes]) -> None:
    assert read_all(b"".join(map(frame, contents))) == contents


@given(st.binary(max_size=64))
def test_any_bytes_are_frames_or_an_error(data: bytes) -> None:
    try:
        found = read_all(data)
    except FrameError:
        return
    assert b"".join(map(frame, found)) == data


@pytest.mark.parametrize("length", [0, LONGEST + 1, 2**32 - 1])
def test_length_that_no_frame_has_ends_the_reading_before_its_content(length: int) -> None:
    with pytest.raises(FrameError, match=f"a frame of {length} bytes"):
        read_all(length.to_bytes(4, "big"))


def test_content_that_does_not_fit_makes_no_frame() -> None:
    assert len(frame(bytes(LONGEST))) == LONGEST + 4
    for content in (b"", bytes(LONGEST + 1)):
        with pytest.raises(FrameError):
            frame(content)


async def test_frame_that_has_begun_must_end_in_time() -> None:
    for begun in (b"\0", frame(b"ab")[:-1]):
        reader = asyncio.StreamReader()
        reader.feed_data(begun)
        with pytest.raises(FrameError, match="longer than"):
            await read_frame(reader, patience=0.01)
