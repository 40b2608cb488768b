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
    assert kernel.startable(bzimage(payload)) == ELF


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param(b"\x28\xb5\x2f\xfd" + bytes(32), id="other-compression"),
        pytest.param(lzma.compress(b"script"), id="no-kernel-inside"),
        pytest.param(lzma.compress(ELF)[:20], id="cut-off"),
    ],
)
def test_kernel_that_cannot_be_unpacked_is_left_as_it_is(payload: bytes) -> None:
    assert kernel.startable(bzimage(payload)) == bzimage(payload)


@given(st.binary(max_size=0x300))
def test_file_that_is_no_kernel_is_refused(image: bytes) -> None:
    with pytest.raises(LabError, match="not a bzImage"):
        kernel.startable(image)


@given(st.binary(max_size=64))
def test_any_payload_is_taken(payload: bytes) -> None:
    assert kernel.startable(bzimage(payload)) == bzimage(payload)


SIGNED = b"~Module signature appended~\n"
MODULE = b"\x7fELF code\0.text\0{types}\0.strtab\0"


@pytest.mark.parametrize("signature", [b"", b"s" * 395 + struct.pack(">8xI", 395) + SIGNED])
def test_module_is_stripped_of_signature_and_types(signature: bytes) -> None:
    module = MODULE.replace(b"{types}", b".BTF") + signature
    assert kernel.bare(module) == MODULE.replace(b"{types}", b".btf")


def test_module_without_signature_and_types_stays_as_it_is() -> None:
    assert kernel.bare(MODULE) == MODULE
