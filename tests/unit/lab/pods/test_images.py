from __future__ import annotations

from pathlib import Path

from hypercobalt.lab.guest.image import Image
from hypercobalt.lab.pods import images


def guest(directory: Path, key: str) -> Image:
    directory.mkdir(exist_ok=True)
    for name in ("vmlinux", "linux.gz"):
        (directory / name).write_text(f"{name} of {key}")
    return Image(key, directory / "vmlinux", directory / "initrd.gz")


def test_images_are_made_once_and_again_for_another_guest(tmp_path: Path) -> None:
    directory, initrd = tmp_path / "images", tmp_path / "images/linux/boot/initrd.gz"
    images.lay_out(directory, guest(tmp_path / "built", "one"))
    first = initrd.stat().st_ino

    images.lay_out(directory, guest(tmp_path / "built", "one"))
    assert initrd.stat().st_ino == first
    images.lay_out(directory, guest(tmp_path / "built", "two"))

    assert initrd.read_text() == "linux.gz of two"
    assert (directory / "linux/boot/vmlinux").read_text() == "vmlinux of two"


def test_half_a_copy_is_made_anew(tmp_path: Path) -> None:
    built, boot = guest(tmp_path / "built", "one"), tmp_path / "images/linux/boot"
    boot.mkdir(parents=True)
    (boot / "initrd.gz").write_text("half")

    images.lay_out(tmp_path / "images", built)

    assert (boot / "initrd.gz").read_text() == "linux.gz of one"


def test_boot_sector_is_there_without_debians_kernel(tmp_path: Path) -> None:
    images.lay_out(tmp_path, None)

    assert (tmp_path / "boot-sector/disk/disk.img").stat().st_size == 512
    assert not (tmp_path / "linux").exists()
