"""Directories of pods where a kubelet lays them, and directories that stand for images.

    DIRECTORY/pods/UID/volumes/kubernetes.io~empty-dir/NAME

So virt-handler finds a launcher's socket in one way, here and on a real kubelet. Files in a volume
are written by the launcher: they are removed without following a link.

Source: kubernetes, pkg/kubelet/kubelet_getters.go, pkg/volume/emptydir.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.lab.pods.running.launch import UID, Launch, Mount

_EMPTY: Final = "volumes/kubernetes.io~empty-dir"
_ROOT: Final = "root"
_MODE: Final = 0o750
_REMOVE: Final = ("/bin/rm", "-rf", "--one-file-system", "--")
_SHOWN: Final = 256
_VOLUME_MODE: Final = 0o2770  # the group is that of the pod, as its fsGroup says


class PodDirectories:
    """The pods' directories of one host.

    Args:
        kubelet: the directory of a kubelet.
        images: the directory of images.
    """

    def __init__(self, kubelet: Path, images: Path) -> None:
        self._pods, self._images = kubelet / "pods", images

    def uids(self) -> frozenset[str]:
        """UIDs of the pods that have a directory."""
        try:
            found = [one.name for one in self._pods.iterdir()]
        except FileNotFoundError:
            return frozenset()
        return frozenset(name for name in found if UID.fullmatch(name))

    def has(self, uid: str) -> bool:
        """Whether a pod has a directory."""
        return self._pod(uid).is_dir()

    def begun(self, uid: str) -> bool:
        """Whether the launcher of a pod has run: it writes to its volumes before anything else.

        A note of ours could not tell a unit that has ended from one that was never started, as
        the process that was about to start it was killed.
        """
        return any(any(volume.iterdir()) for volume in (self._pod(uid) / _EMPTY).glob("*"))

    def missing(self, mounts: Iterable[Mount]) -> tuple[str, ...]:
        """Names of images that have no directory."""
        wanted = dict.fromkeys(mount.image for mount in mounts if mount.image)
        return tuple(name for name in wanted if not self._is_image(self._images / name))

    def make(self, launch: Launch) -> None:
        """Make the directories of a pod, each as it would be new.

        Raises:
            OSError: one cannot be made.
        """
        pod = self._pod(launch.uid)
        for folder in (self._pods, pod, self.root(launch.uid)):
            folder.mkdir(parents=True, exist_ok=True, mode=_MODE)
        for mount in launch.mounts:
            if not mount.image:
                volume = self.source(launch.uid, mount)
                volume.mkdir(parents=True, exist_ok=True, mode=_MODE)
                os.chown(volume, LAUNCHER_USER, LAUNCHER_USER)
                volume.chmod(_VOLUME_MODE)

    def root(self, uid: str) -> Path:
        """Where the root directory of a pod is mounted, in its mount namespace only."""
        return self._pod(uid) / _ROOT

    def source(self, uid: str, mount: Mount) -> Path:
        """The directory of a volume."""
        if mount.image:
            return self._images / mount.image
        return self._pod(uid) / _EMPTY / mount.volume

    def remove(self, uid: str) -> None:
        """Remove the directories of a pod, if there are any.

        By a program, as a launcher may nest directories deeper than Python recurses.

        Raises:
            OSError: something of them is in use.
        """
        command = (*_REMOVE, str(self._pod(uid)))
        done = subprocess.run(  # noqa: S603  # no shell, and the UID of a pod
            command, check=False, capture_output=True, env={"LC_ALL": "C"}
        )
        if done.returncode:
            raise OSError(done.stderr[:_SHOWN].decode(errors="replace").strip())

    def _pod(self, uid: str) -> Path:
        return self._pods / uid

    @staticmethod
    def _is_image(path: Path) -> bool:
        return path.is_dir() and not path.is_symlink()
