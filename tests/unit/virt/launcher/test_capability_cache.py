"""Only plain files of a bounded size are copied from a cache."""

from __future__ import annotations

from pathlib import Path

from hypercobalt.virt.launcher.capability_cache import copy_cache


def test_files_are_copied_with_their_times(tmp_path: Path) -> None:
    source, target = tmp_path / "cache", tmp_path / "pod/cache"
    source.mkdir()
    for name in ("a.xml", "b.xml", "c.txt"):
        (source / name).write_text(name)
        (source / name).chmod(0o600)
    assert copy_cache(source, target) == 2
    assert {one.name: one.read_text() for one in target.iterdir()} == {
        "a.xml": "a.xml",
        "b.xml": "b.xml",
    }
    copied = (target / "a.xml").stat()
    assert (copied.st_mtime_ns, copied.st_mode & 0o777) == (
        (source / "a.xml").stat().st_mtime_ns,
        0o644,
    )


def test_links_directories_and_large_files_are_left_out(tmp_path: Path) -> None:
    source = tmp_path / "cache"
    source.mkdir()
    (source / "link.xml").symlink_to("/etc/passwd")
    (source / "directory.xml").mkdir()
    with (source / "large.xml").open("wb") as file:
        file.truncate(4 * 1024**2 + 1)
    assert copy_cache(source, tmp_path / "pod") == 0
    assert copy_cache(tmp_path / "absent", tmp_path / "pod") == 0
    assert not (tmp_path / "pod").exists()
