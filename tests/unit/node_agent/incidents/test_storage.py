"""Whether a disk can be used: never waits for storage that hangs."""

from __future__ import annotations

import errno
import mmap
import os
from pathlib import Path

import pytest

from hypercobalt.node_agent.incidents.storage import Storage


async def test_a_disk_with_room_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(b"")
    assert await Storage(tmp_path).usable("/disk") is True


async def test_disk_that_is_gone_cannot_be_used(tmp_path: Path) -> None:
    assert await Storage(tmp_path).usable("/disk") is False


async def test_disk_that_is_not_mounted_here_is_unknown(tmp_path: Path) -> None:
    assert await Storage(tmp_path).usable("/elsewhere/disk") is None
    assert await Storage(tmp_path).usable("rbd:pool/image") is None


async def test_storage_that_cannot_even_be_looked_for_is_away_until_it_is_back(
    tmp_path: Path,
) -> None:
    tried, root = Storage(tmp_path, deadline=30), tmp_path / "pool"
    root.symlink_to("x" * 300)  # ENAMETOOLONG, as EIO or ESTALE of a file system that has failed
    for _ in range(2):
        assert await tried.usable("/pool/disk") is False
    root.unlink()
    root.mkdir()
    (root / "disk").write_bytes(b"")
    assert await tried.usable("/pool/disk") is True


async def test_storage_that_hangs_counts_as_away_and_has_one_thread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "disk")  # opening it waits for a writer
    tried = Storage(tmp_path, deadline=0.05)
    assert await tried.usable("/disk") is False
    assert await tried.usable("/disk") is False
    writer = os.open(tmp_path / "disk", os.O_WRONLY)  # both ends: the thread goes on
    os.close(writer)


async def test_a_disk_that_is_read_is_not_silent(tmp_path: Path) -> None:
    (tmp_path / "disk").write_bytes(bytes(8192))
    assert not await Storage(tmp_path).silent("/disk")  # None where direct reads are not possible


async def test_disk_that_cannot_be_read_from_here_is_not_silent(tmp_path: Path) -> None:
    assert await Storage(tmp_path).silent("/elsewhere/disk") is None
    assert await Storage(tmp_path).silent("rbd:pool/image") is None


async def test_an_agent_without_memory_to_read_with_calls_no_disk_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> mmap.mmap:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    (tmp_path / "disk").write_bytes(bytes(4096))
    storage = Storage(tmp_path)
    monkeypatch.setattr(mmap, "mmap", refused)
    assert await storage.silent("/disk") is None
    monkeypatch.undo()
    assert not await storage.silent("/disk")  # None where direct reads are not possible


async def test_a_read_that_hangs_is_silent_for_longer_and_longer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "disk")  # opening it waits for a writer
    tried = Storage(tmp_path, deadline=0.05)
    first, second = await tried.silent("/disk"), await tried.silent("/disk")
    assert first is not None
    assert second is not None
    assert 0.05 <= first < second
    os.close(os.open(tmp_path / "disk", os.O_RDWR))  # both ends: the thread goes on
