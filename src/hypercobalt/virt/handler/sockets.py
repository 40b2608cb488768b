"""The sockets of a launcher pod: where they are, and that they are the pod's.

A pod may put anything into its directories. The path is opened step by step without following a
link, what is connected to is the file that was looked at, and the process that listens has to be of
the launcher's user, in the pod's own control group.

Source: kubelet, pkg/kubelet/config (GetPodVolumeDir); unix(7); cgroups(7).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from hypercobalt.virt.handler.processes import UNSEEN
from hypercobalt.virt.wire.client import LauncherError
from hypercobalt.virt.wire.peers import PeerCredentials
from hypercobalt.vmi.paths import COMMAND_SOCKET, SOCKET_VOLUME

_BELOW: Final = ("volumes", "kubernetes.io~empty-dir")
_UID: Final = re.compile(r"[0-9a-z](-?[0-9a-z]){0,63}", re.ASCII)
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

CheckPeer = Callable[[str, PeerCredentials], str]
"""Why the process behind the socket of a pod, by UID, is not of that pod; "" if it is."""


@contextmanager
def socket_directory(pods: Path, pod_uid: str) -> Generator[int]:
    """Open the directory of a pod's command socket; see `pod_directory`."""
    with pod_directory(pods, pod_uid, SOCKET_VOLUME) as directory:
        yield directory


@contextmanager
def pod_directory(pods: Path, pod_uid: str, volume: str, *below: str) -> Generator[int]:
    """Open a directory in an emptyDir of a pod.

    Args:
        pods: directory of all pods.
        pod_uid: of the pod; one that could lead elsewhere is refused.
        volume: name of the emptyDir.
        below: UIDs that lead to the directory in it, checked in the same way.

    Raises:
        OSError: it is not there, or a link is on the way.
    """
    for uid in (pod_uid, *below):
        if _UID.fullmatch(uid) is None:
            raise FileNotFoundError(f"metadata.uid {uid[:64]!r} of a pod cannot be a directory")
    at = os.open(pods, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in (pod_uid, *_BELOW, volume, *below):
            next_ = os.open(name, _DIRECTORY, dir_fd=at)
            os.close(at)
            at = next_
        yield at
    finally:
        os.close(at)


@contextmanager
def command_socket(directory: int) -> Generator[Path]:
    """Path of the command socket; see `opened_socket`."""
    with opened_socket(directory, COMMAND_SOCKET) as path:
        yield path


@contextmanager
def opened_socket(directory: int, name: str) -> Generator[Path]:
    """Path of a socket itself, which stays that whatever the pod puts in its place.

    Raises:
        FileNotFoundError: there is none.
        LauncherError: it is no socket.
    """
    at = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        if not stat.S_ISSOCK(os.fstat(at).st_mode):
            raise LauncherError(f"{name} of the pod is no socket")
        yield Path(f"/proc/self/fd/{at}")
    finally:
        os.close(at)


def check_peer(pod_uid: str, peer: PeerCredentials, *, proc: Path = Path("/proc")) -> str:
    """Why a process does not belong to a pod; "" if it does.

    Args:
        pod_uid: of the pod; runtimes have it in the name of the pod's control group.
        peer: the process, as the kernel names it.
        proc: where the processes of this PID namespace are.
    """
    if peer.pid <= 0:
        return UNSEEN
    try:
        groups = (proc / str(peer.pid) / "cgroup").read_text()
    except OSError:
        return f"process {peer.pid} has ended"
    plain = groups.replace("\\x2d", "-").replace("_", "-")
    if pod_uid not in plain:
        return f"process {peer.pid} is in no control group of pod {pod_uid}"
    return ""
