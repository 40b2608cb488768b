"""The Linux kernel as QEMU starts it fastest: the plain ELF, by its PVH entry, and bare modules.

Distributions ship a bzImage, a small program that unpacks the real kernel. Under TCG, where every
instruction of the guest is translated, that unpacking takes longer than the rest of the start; the
machine that builds the guest does it once instead.

Source: Linux, Documentation/x86/boot.rst (header of a bzImage), include/linux/module_signature.h,
kernel/bpf/btf.c (btf_module_notify); QEMU starts an ELF whose notes name a PVH entry (CONFIG_PVH)
directly.
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
_SIGNED = b"~Module signature appended~\n"
_SIGNATURE = struct.Struct(">8xI")  # what precedes that: the length of the signature before it
_TYPES = b"\0.BTF\0"


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


def bare(module: bytes) -> bytes:
    """A module without what the kernel would check of it before it loads it.

    Checking the first signature, and parsing the types of the whole kernel for the first module
    that has types of its own, take longer under TCG than loading all modules. A kernel that does
    not enforce signatures, as Debian's, loads a module that has none.
    """
    if module.endswith(_SIGNED):
        end = len(module) - len(_SIGNED) - _SIGNATURE.size
        (length,) = _SIGNATURE.unpack_from(module, end)
        module = module[: end - length]
    return module.replace(_TYPES, _TYPES.lower())  # in the table of the sections' names
