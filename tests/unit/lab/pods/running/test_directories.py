"""Whether a pod was begun is read from what its launcher has left."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.unit.lab.pods.running.objects import UID

from hypercobalt.lab.pods.running.directories import PodDirectories


def test_pod_is_begun_once_its_launcher_has_written_something(tmp_path: Path) -> None:
    directories = PodDirectories(tmp_path, tmp_path / "images")
    pod = tmp_path / "pods" / UID
    volume = pod / "volumes/kubernetes.io~empty-dir/private"
    assert not directories.begun(UID)
    volume.mkdir(parents=True)
    (pod / "root").mkdir()
    assert not directories.begun(UID)  # whoever made it was killed before it started the unit
    (volume / "libvirt").mkdir()
    assert directories.begun(UID)


def test_directories_that_a_launcher_has_nested_deeply_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = PodDirectories(tmp_path, tmp_path / "images")
    volume = tmp_path / "pods" / UID / "volumes/kubernetes.io~empty-dir/private"
    volume.mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (volume / "link").symlink_to(tmp_path / "outside")
    monkeypatch.chdir(volume)
    for _ in range(2000):  # longer than a path may be, deeper than Python and descriptors go
        os.mkdir("d")  # noqa: PTH102
        os.chdir("d")
    monkeypatch.undo()
    try:
        directories.remove(UID)
        assert not directories.has(UID)
        assert (tmp_path / "outside").is_dir()
        directories.remove(UID)
    finally:  # pytest would not get rid of it either
        subprocess.run(["/bin/rm", "-rf", str(volume)], check=True)
