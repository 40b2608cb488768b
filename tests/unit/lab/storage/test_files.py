"""The FUSE protocol over a directory, without a kernel in between."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hypercobalt.lab.storage import fuse
from hypercobalt.lab.storage.files import Files
from hypercobalt.lab.storage.fuse import ROOT, FuseRequest, Op


def request(op: int, node: int = ROOT, body: bytes = b"") -> FuseRequest:
    return FuseRequest(op, 1, node, os.getuid(), os.getgid(), 0, body)


class Kernel:
    """Create a file with the requests that the kernel sends."""

    def __init__(self, folder: Path) -> None:
        self.files = Files(folder)

    def do(self, op: int, node: int = ROOT, body: bytes = b"") -> bytes:
        return self.files.do(request(op, node, body))

    def lookup(self, path: str) -> int:
        node = ROOT
        for name in path.split("/"):
            (node,) = struct.unpack_from("<Q", self.do(Op.LOOKUP, node, name.encode() + b"\0"))
        return node

    def create(self, node: int, name: str) -> tuple[int, int]:
        body = struct.pack("<4I", os.O_RDWR | os.O_EXCL, 0o644, 0, 0) + name.encode() + b"\0"
        made = self.do(Op.CREATE, node, body)
        return struct.unpack_from("<Q", made)[0], struct.unpack_from("<Q", made, 128)[0]

    def open(self, node: int, flags: int = os.O_RDWR) -> int:
        (handle,) = struct.unpack_from("<Q", self.do(Op.OPEN, node, struct.pack("<II", flags, 0)))
        return int(handle)

    def write(self, node: int, handle: int, offset: int, data: bytes) -> None:
        self.do(Op.WRITE, node, write_body(handle, offset, data))

    def read(self, node: int, handle: int, offset: int, size: int) -> bytes:
        return self.do(Op.READ, node, struct.pack("<QQIIQII", handle, offset, size, 0, 0, 0, 0))

    def list(self, node: int = ROOT, size: int = 4096) -> list[str]:
        (handle,) = struct.unpack_from("<Q", self.do(Op.OPENDIR, node, bytes(8)))
        names: list[str] = []
        while found := self.do(Op.READDIR, node, struct.pack("<QQI", handle, len(names), size)):
            while found:
                _, _, length, _ = struct.unpack_from("<QQII", found)
                names.append(found[24 : 24 + length].decode())
                found = found[24 + length + -length % 8 :]
        self.do(Op.RELEASEDIR, node, struct.pack("<QIIQ", handle, 0, 0, 0))
        return sorted(names)


def write_body(handle: int, offset: int, data: bytes) -> bytes:
    return struct.pack("<QQIIQII", handle, offset, len(data), 0, 0, 0, 0) + data


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    (tmp_path / "vms").mkdir()
    (tmp_path / "vms" / "a.img").write_bytes(b"disk")
    return Kernel(tmp_path)


@given(
    st.lists(st.tuples(st.integers(0, 5000), st.binary(min_size=1, max_size=300)), max_size=8),
)
def test_written_data_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[int, bytes]]
) -> None:
    kernel = Kernel(tmp_path_factory.mktemp("files"))
    node, handle = kernel.create(ROOT, "f")
    expected = bytearray()
    for offset, data in writes:
        expected.extend(bytes(max(0, offset + len(data) - len(expected))))
        expected[offset : offset + len(data)] = data
        kernel.write(node, handle, offset, data)
    assert kernel.read(node, handle, 0, 6000) == bytes(expected)


def test_flags_that_the_kernel_has_applied_are_not_applied_again(
    kernel: Kernel, tmp_path: Path
) -> None:
    node = kernel.lookup("vms/a.img")
    handle = kernel.open(node, os.O_RDWR | os.O_APPEND | os.O_DIRECT)
    kernel.write(node, handle, 0, b"D")
    assert (tmp_path / "vms" / "a.img").read_bytes() == b"Disk"


def test_a_file_stays_the_same_when_its_name_goes(kernel: Kernel, tmp_path: Path) -> None:
    node = kernel.lookup("vms/a.img")
    (tmp_path / "vms" / "a.img").unlink()
    (tmp_path / "vms" / "a.img").write_bytes(b"other")
    assert kernel.read(node, kernel.open(node), 0, 10) == b"disk"
    assert kernel.lookup("vms/a.img") != node


def test_names_are_made_moved_and_removed(kernel: Kernel, tmp_path: Path) -> None:
    kernel.do(Op.MKDIR, ROOT, struct.pack("<II", 0o755, 0) + b"logs\0")
    kernel.create(kernel.lookup("logs"), "x")
    kernel.do(Op.RENAME, kernel.lookup("logs"), struct.pack("<Q", kernel.lookup("vms")) + b"x\0y\0")
    kernel.do(Op.UNLINK, kernel.lookup("vms"), b"a.img\0")
    kernel.do(Op.RMDIR, ROOT, b"logs\0")
    assert [path.name for path in tmp_path.rglob("*")] == ["vms", "y"]


def test_a_long_directory_is_listed_in_parts(kernel: Kernel, tmp_path: Path) -> None:
    names = sorted(f"file-{number}" for number in range(50))
    for name in names:
        (tmp_path / name).touch()
    assert kernel.list(size=200) == [*names, "vms"]


def test_size_mode_and_time_of_a_file_are_set(kernel: Kernel, tmp_path: Path) -> None:
    node = kernel.lookup("vms/a.img")
    valid = 1 | 8 | 32
    times = (0, 1_000_000_000, 0, 0, 5, 0)
    body = struct.pack("<2I6Q8I", valid, 0, 0, 10, 0, *times[:3], *times[3:], 0o100600, 0, 0, 0, 0)
    kernel.do(Op.SETATTR, node, body)
    seen = (tmp_path / "vms" / "a.img").stat()
    assert (seen.st_size, seen.st_mode & 0o777) == (10, 0o600)
    assert seen.st_mtime_ns == 1_000_000_000 * 10**9 + 5


def test_forgotten_files_are_closed(kernel: Kernel) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    node = kernel.lookup("vms")
    kernel.lookup("vms")
    assert len(os.listdir("/proc/self/fd")) == before + 1  # noqa: PTH208
    kernel.do(Op.FORGET, node, struct.pack("<Q", 1))
    assert kernel.do(Op.GETATTR, node)
    kernel.do(Op.BATCH_FORGET, 0, struct.pack("<IIQQ", 1, 0, node, 1))
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    with pytest.raises(OSError, match="Stale"):
        kernel.do(Op.GETATTR, node)


def test_operation_that_is_not_served_is_refused(kernel: Kernel) -> None:
    with pytest.raises(OSError, match=os.strerror(errno.ENOSYS)):
        kernel.do(39)  # ioctl
    with pytest.raises(FileNotFoundError):
        kernel.lookup("vms/none")


def test_only_files_below_vms_are_disks(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "consoles" / "vms").mkdir(parents=True)
    about = {path: kernel.lookup(path) for path in ("vms", "vms/a.img", "consoles", "consoles/vms")}
    disks = [path for path, node in about.items() if kernel.files.is_disk(request(Op.READ, node))]
    assert disks == ["vms", "vms/a.img"]


def test_a_write_over_what_has_space_needs_none(kernel: Kernel, tmp_path: Path) -> None:
    node = kernel.lookup("vms/a.img")
    handle = kernel.open(node)
    kernel.write(node, handle, 0, bytes([1]) * 65536)
    os.truncate(tmp_path / "vms" / "a.img", 1 << 20)

    def needs(offset: int) -> bool:
        return kernel.files.needs_space(request(Op.WRITE, node, write_body(handle, offset, b"xx")))

    assert [needs(offset) for offset in (0, 65534, 65535, 1 << 19, 1 << 20)] == [
        False,
        False,
        True,
        True,
        True,
    ]


def test_a_request_is_read_from_the_kernels_message() -> None:
    message = struct.pack("<IIQQIIIHH", 44, Op.LOOKUP, 7, ROOT, 1, 2, 3, 0, 0) + b"ab\0\0"
    parsed = FuseRequest.parse(message)
    assert parsed == FuseRequest(Op.LOOKUP, 7, ROOT, 1, 2, 3, b"ab\0\0")
    assert parsed.names() == [b"ab", b""]
    assert fuse.answer(7, error=errno.EIO) == struct.pack("<IiQ", 16, -5, 7)
