"""The Linux kernel as QEMU starts it fastest: the plain ELF, by its PVH entry.

Distributions ship a bzImage, a small program that unpacks the real kernel. Under TCG, where every
instruction of the guest is translated, that unpacking takes longer than the rest of the start; the
machine that builds the guest does it once instead.

Source: Linux, Documentation/x86/boot.rst (header of a bzImage); QEMU starts an ELF whose notes name
a PVH entry (CONFIG_PVH) directly.
"""

from __future__ import annotations

import lzma
import struct

from hypercobalt.lab.errors import LabError

_MAGIC = (0x202, b"HdrS")
_SETUP_SECTORS = 0x1F1
_PAYLOAD = 0x248  # offset and length, two little-endian words
_SECTOR = 512
_LONGEST_HEADER = 0x250
_ELF = b"\x7fELF"


def startable(image: bytes) -> bytes:
    """The ELF kernel inside a bzImage; the bzImage itself where it is not compressed with xz.

    Raises:
        LabError: it is no bzImage.
    """
    if len(image) < _LONGEST_HEADER or image[_MAGIC[0] : _MAGIC[0] + 4] != _MAGIC[1]:
        raise LabError("guest kernel: this is not a bzImage (no 'HdrS' in its header)")
    offset, length = struct.unpack_from("<II", image, _PAYLOAD)
    start = (image[_SETUP_SECTORS] + 1) * _SECTOR + offset
    try:
        # The payload ends in its unpacked size, which is not part of the xz stream.
        kernel = lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(image[start : start + length])
    except lzma.LZMAError:
        return image
    return kernel if kernel.startswith(_ELF) else image
