from __future__ import annotations

import gzip
import stat

from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.lab.guest import archive
from hypercobalt.lab.guest.archive import ArchiveEntry


def unpack(data: bytes) -> list[ArchiveEntry]:
    """What the kernel reads, by the format's description."""
    data = gzip.decompress(data)
    found: list[ArchiveEntry] = []
    at = 0
    while True:
        assert data[at : at + 6] == b"070701"
        fields = [int(data[at + 6 + 8 * n : at + 14 + 8 * n], 16) for n in range(13)]
        mode, size, name_size = fields[1], fields[6], fields[11]
        name = data[at + 110 : at + 110 + name_size - 1].decode()
        at += (110 + name_size + 3) & ~3
        if name == "TRAILER!!!":
            return found
        found.append(ArchiveEntry(name, mode, data[at : at + size]))
        at += (size + 3) & ~3


@given(st.lists(st.builds(archive.file, st.text("abc/.", min_size=1), st.binary(max_size=50))))
def test_packed_entries_are_unpacked_again(entries: list[ArchiveEntry]) -> None:
    assert unpack(archive.initramfs(entries)) == entries


def test_entries_keep_their_types_and_permissions() -> None:
    entries = [
        archive.directory("bin"),
        archive.file("bin/busybox", b"x", executable=True),
        archive.file("note", b"y"),
    ]
    assert [stat.filemode(entry.mode) for entry in unpack(archive.initramfs(entries))] == [
        "drwxr-xr-x",
        "-rwxr-xr-x",
        "-rw-r--r--",
    ]


def test_equal_entries_give_equal_bytes() -> None:
    entries = [archive.directory("a"), archive.file("a/b", b"c")]
    assert archive.initramfs(entries) == archive.initramfs(entries)
    assert archive.initramfs(entries)[4:8] == bytes(4)  # no time in the gzip header
