from __future__ import annotations

import lzma
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.lab.errors import LabError
from hypercobalt.lab.guest import kernel

ELF = b"\x7fELF and the rest of a kernel"


def bzimage(payload: bytes, *, setup_sectors: int = 3, offset: int = 20) -> bytes:
    header = bytearray((setup_sectors + 1) * 512)
    header[0x1F1] = setup_sectors
    header[0x202:0x206] = b"HdrS"
    struct.pack_into("<II", header, 0x248, offset, len(payload))
    return bytes(header) + bytes(offset) + payload + b"the end"


def test_the_kernel_inside_is_found() -> None:
    payload = lzma.compress(ELF) + struct.pack("<I", len(ELF))
    assert kernel.unpack(bzimage(payload)) == ELF


@pytest.mark.parametrize(
    ("image", "why"),
    [
        pytest.param(b"", "no bzImage", id="empty"),
        pytest.param(bytes(4096), "no bzImage", id="zeros"),
        pytest.param(
            bzimage(b"\x28\xb5\x2f\xfd" + bytes(32)), "compressed with xz", id="other-compression"
        ),
        pytest.param(bzimage(lzma.compress(b"script")), "no ELF", id="no-kernel-inside"),
        pytest.param(bzimage(lzma.compress(ELF)[:20]), "no ELF", id="cut-off"),
    ],
)
def test_what_is_no_kernel_is_refused(image: bytes, why: str) -> None:
    with pytest.raises(LabError, match=why):
        kernel.unpack(image)


@given(st.binary(max_size=64))
def test_any_payload_is_unpacked_or_refused(payload: bytes) -> None:
    with pytest.raises(LabError):
        kernel.unpack(bzimage(payload))
