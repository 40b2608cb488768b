"""Which guest's console a handler serves, and whose socket it connects to."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import pytest
from msgspec.structs import replace

from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.kubevirt.console import ENDPOINT
from hypercobalt.api.kubevirt.names import NODE_NAME, VMIPhase
from hypercobalt.api.kubevirt.status import VMIStatus
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.virt.handler.console_socket import serial_port
from hypercobalt.virt.handler.consoles import GuestPlace, place_of
from hypercobalt.virt.handler.link import LauncherPlaces
from hypercobalt.virt.handler.node_labels import annotations_of
from hypercobalt.virt.wire.client import LauncherError
from hypercobalt.virt.wire.peers import PeerCredentials

POD, VMI = "5f774ae2-e58e-4654-8aa8-4fb506459473", "0a774ae2-e58e-4654-8aa8-4fb506459473"
RUNS = VirtualMachineInstance(
    metadata=ObjectMeta(name="vm", namespace="a", uid=VMI, labels={NODE_NAME: "kvm-1"}),
    status=VMIStatus(phase=VMIPhase.RUNNING, nodeName="kvm-1", activePods={POD: "kvm-1"}),
)


def test_guest_that_runs_here_is_served() -> None:
    assert place_of(RUNS, "kvm-1") == GuestPlace(POD, VMI)


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        (replace(RUNS.status, phase=VMIPhase.SCHEDULED), "a/vm is Scheduled, not Running"),
        (replace(RUNS.status, phase=""), "is Pending"),
        (replace(RUNS.status, nodeName="kvm-2"), "not on node kvm-1, but on kvm-2"),
        (replace(RUNS.status, activePods={POD: "kvm-2"}), "has 0 pods on node kvm-1"),
        (replace(RUNS.status, activePods={POD: "kvm-1", VMI: "kvm-1"}), "has 2 pods"),
    ],
)
def test_other_guest_is_refused_with_what_is_the_case(status: VMIStatus, problem: str) -> None:
    found = place_of(replace(RUNS, status=status), "kvm-1")
    assert isinstance(found, str)
    assert problem in found


@pytest.fixture
def directory() -> Iterator[Path]:
    pods = Path(mkdtemp(prefix="hv"))  # short: a Unix socket's path has 107 bytes
    (pods / POD / "volumes/kubernetes.io~empty-dir/private" / VMI).mkdir(parents=True)
    yield pods
    rmtree(pods)


def places(pods: Path, problem: str = "", user: int | None = None) -> LauncherPlaces:
    def check(pod_uid: str, peer: PeerCredentials) -> str:
        assert (pod_uid, peer.pid) == (POD, os.getpid())
        return problem

    return LauncherPlaces(pods, os.getuid() if user is None else user, check)


@contextmanager
def listening(pods: Path) -> Generator[socket.socket]:
    """A guest's port; its path is too long for a Unix socket, but not as the pod sees it."""
    at = os.open(socket_of(pods).parent, os.O_PATH)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{at}/virt-serial0")
        os.close(at)
        server.listen()
        yield server


def socket_of(pods: Path) -> Path:
    return pods / POD / "volumes/kubernetes.io~empty-dir/private" / VMI / "virt-serial0"


async def test_serial_port_of_the_pod_is_connected(directory: Path) -> None:
    with listening(directory) as server:
        async with serial_port(places(directory), POD, VMI) as port:
            guest, _ = server.accept()
            with guest:
                guest.sendall(b"login: ")
                assert await port.read() == b"login: "
                await port.write(b"root")
                assert guest.recv(16) == b"root"


@pytest.mark.parametrize(
    ("problem", "user"), [("process 7 is in no control group of pod", None), ("opened by user", 9)]
)
async def test_process_that_is_not_the_pods_is_refused(
    directory: Path, problem: str, user: int | None
) -> None:
    found = places(directory, problem, user)
    with listening(directory), pytest.raises(LauncherError, match=problem):
        async with serial_port(found, POD, VMI):
            raise AssertionError


async def test_guest_without_a_port_and_a_link_in_its_place_are_refused(directory: Path) -> None:
    for problem in ("autoattachSerialConsole", "is no socket"):
        with pytest.raises(LauncherError, match=problem):
            async with serial_port(places(directory), POD, VMI):
                raise AssertionError
        if not socket_of(directory).is_symlink():
            socket_of(directory).symlink_to("/dev/log")


def test_address_of_the_handler_is_written_once() -> None:
    endpoint = DiagnosticsEndpoint(url="https://10.0.0.1:9189", certificateSHA256="ab")
    written = annotations_of({"other": "x"}, endpoint)
    assert written.keys() == {ENDPOINT}
    assert annotations_of(written, endpoint) == {}
    assert annotations_of({ENDPOINT: "no JSON"}, endpoint) == written
    assert annotations_of(written, None) == {}
