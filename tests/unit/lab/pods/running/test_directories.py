"""Whether a pod was begun is read from what its launcher has left."""

from __future__ import annotations

from pathlib import Path

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
