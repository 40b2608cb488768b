"""The way to a launcher's socket, and who may stand behind it."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest

from hypercobalt.virt.handler.sockets import check_peer, command_socket, socket_directory
from hypercobalt.virt.wire.client import LauncherError
from hypercobalt.virt.wire.peers import PeerCredentials

UID = "5f774ae2-e58e-4654-8aa8-4fb506459473"
BELOW = "volumes/kubernetes.io~empty-dir"


@pytest.fixture
def pods() -> Iterator[Path]:
    directory = Path(mkdtemp(prefix="hv"))  # short: a Unix socket's path has 107 bytes
    (directory / UID / BELOW / "sockets").mkdir(parents=True)
    yield directory
    rmtree(directory)


def test_path_leads_to_the_socket_that_was_opened(pods: Path) -> None:
    place = pods / UID / BELOW / "sockets"
    with socket.socket(socket.AF_UNIX) as server, socket_directory(pods, UID) as directory:
        with pytest.raises(FileNotFoundError), command_socket(directory):
            pass
        server.bind(str(place / "launcher-sock"))
        server.listen()
        with command_socket(directory) as path, socket.socket(socket.AF_UNIX) as client:
            (place / "launcher-sock").unlink()
            (place / "launcher-sock").symlink_to("/nowhere")
            client.connect(str(path))


@pytest.mark.parametrize("uid", ["", ".", "..", "../x", "a/b", "a\0b", "A", "a-", "-a", "x" * 200])
def test_uid_that_could_lead_elsewhere_is_refused(pods: Path, uid: str) -> None:
    with (
        pytest.raises(FileNotFoundError, match="cannot be a directory"),
        socket_directory(pods, uid),
    ):
        pass


@pytest.mark.parametrize("step", ["", "volumes", BELOW, f"{BELOW}/sockets"])
def test_link_on_the_way_is_not_followed(pods: Path, step: str) -> None:
    other = "00000000-e58e-4654-8aa8-4fb506459473"
    here = pods / other / step
    here.parent.mkdir(parents=True, exist_ok=True)
    here.symlink_to(pods / UID / step)
    with pytest.raises(OSError, match=r"Not a directory|symbolic"), socket_directory(pods, other):
        pass


@pytest.mark.parametrize("kind", ["link", "file", "directory"])
def test_what_is_no_socket_is_refused(pods: Path, kind: str) -> None:
    place = pods / UID / BELOW / "sockets" / "launcher-sock"
    match kind:
        case "link":
            place.symlink_to("/dev/log")
        case "file":
            place.touch()
        case _:
            place.mkdir()
    with (
        socket_directory(pods, UID) as directory,
        pytest.raises(LauncherError, match="is no socket"),
        command_socket(directory),
    ):
        pass


@pytest.mark.parametrize(
    ("groups", "problem"),
    [
        (f"0::/system.slice/hypercobalt-pod-{UID}.service\n", ""),
        (f"0::/kubepods.slice/kubepods-pod{UID.replace('-', '_')}.slice/cri-1.scope\n", ""),
        (f"4:memory:/kubepods/pod{UID}/1\n0::/\n", ""),
        ("0::/system.slice/hypercobalt-pod-other.service\n", "in no control group of pod"),
        ("", "in no control group of pod"),
    ],
)
def test_peer_is_in_the_control_group_of_its_pod(tmp_path: Path, groups: str, problem: str) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7/cgroup").write_text(groups)
    found = check_peer(UID, PeerCredentials(7, 107, 107), proc=tmp_path)
    assert problem in found
    assert bool(found) is bool(problem)


def test_peer_that_cannot_be_seen_is_refused(tmp_path: Path) -> None:
    assert "hostPID" in check_peer(UID, PeerCredentials(0, 107, 107), proc=tmp_path)
    assert "has ended" in check_peer(UID, PeerCredentials(7, 107, 107), proc=tmp_path)
