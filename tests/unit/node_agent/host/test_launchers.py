"""What the node agent makes of the processes of launcher pods."""

from __future__ import annotations

import asyncio

import pytest

from hypercobalt.adapters.host.fake import FakePods
from hypercobalt.adapters.host.pod_model import PodProcesses
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.kubevirt.names import LAUNCHER_MODULE
from hypercobalt.node_agent.host.launchers import (
    PodLaunchers,
    StoredLaunchers,
    follow,
    launchers_of,
)
from hypercobalt.node_agent.status.parts import Board, RunningLauncher
from hypercobalt.runtime import FakeClock

LAUNCHER = ("python3", "-m", LAUNCHER_MODULE, '{"namespace":"default","name":"guest","uid":"u"}')
GUEST = ("qemu-system-x86_64", "-m", "size=32768k", "-smp", "2,sockets=1,cores=2")
MIB = 1 << 20


def launcher(**fields: object) -> RunningLauncher:
    given: dict[str, object] = {"pod": "p", "namespace": "default", "name": "guest", **fields}
    return RunningLauncher(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        pytest.param((LAUNCHER,), launcher(), id="no-guest-yet"),
        pytest.param(
            (LAUNCHER, GUEST), launcher(memory_bytes=32 * MIB, vcpus=2), id="with-its-guest"
        ),
        pytest.param(
            (LAUNCHER, ("qemu-kvm", "-m", "64", "-smp", "cpus=3,maxcpus=4")),
            launcher(memory_bytes=64 * MIB, vcpus=3),
            id="other-forms",
        ),
        pytest.param((LAUNCHER, ("qemu-kvm", "-m")), launcher(), id="option-without-a-value"),
        pytest.param(
            (LAUNCHER, ("qemu-kvm", "-m", "lots", "-smp", "many")), launcher(), id="no-numbers"
        ),
        pytest.param(
            (("py", LAUNCHER_MODULE, "{"),),
            launcher(namespace="", name="p"),
            id="hides-its-name",
        ),
        pytest.param(
            (("py", LAUNCHER_MODULE, '{"namespace":"%s","name":"%s"}' % ("n" * 99, "m" * 999)),),  # noqa: UP031
            launcher(namespace="n" * 63, name="m" * 253),
            id="endless-name",
        ),
    ],
)
def test_launcher_is_read_from_its_command_lines(
    commands: tuple[tuple[str, ...], ...], found: RunningLauncher
) -> None:
    assert launchers_of((PodProcesses("p", commands),)) == (found,)


async def test_board_keeps_the_last_launchers_while_systemd_is_away() -> None:
    pods, board = FakePods(), Board(FakeClock())
    following = asyncio.create_task(follow(pods, board))

    async def until(expected: tuple[RunningLauncher, ...]) -> None:
        async with asyncio.timeout(5):
            while (parts := board.parts).launchers != expected:
                await board.changed(parts)

    await until(())
    pods.set("p", LAUNCHER, GUEST)
    await until((launcher(memory_bytes=32 * MIB, vcpus=2),))
    pods.leave()
    for _ in range(5):
        await asyncio.sleep(0)
    assert board.parts.launchers is not None
    assert len(board.parts.launchers) == 1
    following.cancel()


async def test_launcher_of_the_status_is_known_to_an_agent_that_has_started_since() -> None:
    """The guest may have broken out, and the pod look like another program by now."""
    pods = FakePods()
    stored = (
        Instance(id="p", name="default_guest", active=True, namespace="default"),
        Instance(id="gone", name="default_gone", active=True, namespace="default"),
        Instance(id="other", name="other", active=True),
    )
    StoredLaunchers(pods).on_add(Hypervisor(status=HypervisorStatus(instances=stored)))
    pods.set("p", ("nginx",))
    pods.set("other", ("nginx",))
    assert await PodLaunchers(pods).running() == (launcher(),)
