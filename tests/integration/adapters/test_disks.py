"""Images and disks by the real qemu-img, and in memory."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hypercobalt.adapters.disks.port import MIB, DiskFailureError, DiskImage, ImageError
from hypercobalt.adapters.disks.qemu_img import QemuImg

pytestmark = pytest.mark.skipif(
    shutil.which("qemu-img") is None, reason="qemu-img is not installed"
)


def made(path: Path, *options: str) -> Path:
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *options], check=True)
    return path


def write(disk: Path) -> None:
    command = ["qemu-io", "-c", "write 0 64k", str(disk)]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "a,b json:.qcow2"
    return made(path, str(path), "8M")


async def test_images_of_both_formats_are_accepted(tmp_path: Path, image: Path) -> None:
    raw = tmp_path / "disk.img"
    raw.write_bytes(bytes(MIB))
    assert await QemuImg().inspect(image) == DiskImage("qcow2", 8 * MIB)
    assert await QemuImg().inspect(raw) == DiskImage("raw", MIB)


async def test_image_that_names_another_file_is_refused(tmp_path: Path, image: Path) -> None:
    backed, data = tmp_path / "backed", tmp_path / "data"
    made(backed, "-b", str(image), "-F", "qcow2", str(backed))
    made(data, "-o", f"data_file={tmp_path}/secret", str(data), "1M")
    for path, words in ((backed, "backing file"), (data, "external data file")):
        with pytest.raises(ImageError, match=words):
            await QemuImg().inspect(path)


async def test_image_of_a_size_that_cannot_be_is_refused(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    made(huge, "-o", "cluster_size=2M", str(huge), "1P")
    with pytest.raises(ImageError, match="virtual size is 1125899906842624 bytes"):
        await QemuImg().inspect(huge)


async def test_truncated_images_are_refused(tmp_path: Path, image: Path) -> None:
    for length in (4, 100, 3 * 65536):
        short = tmp_path / f"{length}.qcow2"
        short.write_bytes(image.read_bytes()[:length])
        with pytest.raises(ImageError):
            await QemuImg().inspect(short)
    preallocated = tmp_path / "whole"
    made(preallocated, "-o", "preallocation=falloc", str(preallocated), "8M")
    os.truncate(preallocated, 2 * MIB)
    with pytest.raises(ImageError, match="qemu-img check"):
        await QemuImg().inspect(preallocated)


async def test_what_is_no_regular_file_is_refused_or_absent(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ImageError, match="no regular file"):
            await QemuImg().inspect(path)
    with pytest.raises(DiskFailureError, match="No such file"):
        await QemuImg().inspect(tmp_path / "absent")


async def test_overlay_is_made_once_and_leaves_its_image_alone(tmp_path: Path, image: Path) -> None:
    overlay, before = tmp_path / "new/disk.qcow2", image.read_bytes()
    image.chmod(0o444)
    found = await QemuImg().inspect(image)
    await QemuImg().overlay(overlay, image, found)
    write(overlay)
    written = overlay.read_bytes()
    await QemuImg().overlay(overlay, image, found)
    assert overlay.read_bytes() == written
    assert image.read_bytes() == before
    assert [one.name for one in overlay.parent.iterdir()] == ["disk.qcow2"]


async def test_empty_disk_is_sparse_and_has_whole_mebibytes(tmp_path: Path) -> None:
    path = tmp_path / "empty/data.qcow2"
    await QemuImg().empty(path, 10 * 1024 * MIB + 12345)
    assert await QemuImg().inspect(path) == DiskImage("qcow2", 10 * 1024 * MIB)
    assert path.stat().st_blocks * 512 < MIB
    for size in (-1, 0, MIB - 1, 1 << 60):
        with pytest.raises(ImageError):
            await QemuImg().empty(tmp_path / "none", size)


async def test_stop_while_a_disk_is_made_leaves_none(tmp_path: Path, image: Path) -> None:
    overlay, found = tmp_path / "disk.qcow2", await QemuImg().inspect(image)
    task = asyncio.create_task(QemuImg().overlay(overlay, image, found))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not overlay.exists()
    await QemuImg().overlay(overlay, image, found)
    assert overlay.exists()


async def test_answer_that_takes_too_long_condemns_no_image(
    tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = await QemuImg().inspect(image)
    monkeypatch.setattr("hypercobalt.adapters.disks.qemu_img._DEADLINE", timedelta(milliseconds=1))
    with pytest.raises(DiskFailureError, match="qemu-img info had not ended"):
        await QemuImg().inspect(image)
    with pytest.raises(DiskFailureError, match="qemu-img create had not ended"):
        await QemuImg().overlay(tmp_path / "overlay", image, found)
    assert not (tmp_path / "overlay").exists()


async def test_directory_that_cannot_be_made_is_an_error_of_the_disk(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskFailureError):
        await QemuImg().empty(tmp_path / "file/disk.qcow2", MIB)


changes = st.lists(
    st.tuples(
        st.sampled_from([(4, "I"), (20, "I"), (24, "Q"), (36, "I"), (40, "Q"), (48, "Q"),
                         (56, "I"), (60, "I"), (64, "Q"), (72, "Q"), (80, "Q"), (96, "I"),
                         (100, "I"), (104, "Q"), (112, "I"), (65536, "Q"), (3 * 65536, "Q")]),
        st.one_of(st.integers(0, 1 << 17), st.integers(0, (1 << 64) - 1)),
    ),
    min_size=1,
    max_size=4,
)  # fmt: skip


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(changes, st.integers(0, 300_000))
def test_any_damaged_image_is_read_or_refused(
    image: Path, tmp_path: Path, changed: list[tuple[tuple[int, str], int]], length: int
) -> None:
    data = bytearray(image.read_bytes())
    for (offset, width), value in changed:
        size = struct.calcsize(f">{width}")
        struct.pack_into(f">{width}", data, offset, value % (1 << 8 * size))
    damaged = tmp_path / "damaged"
    damaged.write_bytes(data[: max(length, 4)])
    try:
        found = asyncio.run(QemuImg().inspect(damaged))
    except ImageError:
        return
    assert found.format == "qcow2"
