"""virt-handler with a real launcher, its libvirtd, and a guest under TCG."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.integration.virt.controller.world import Lab
from tests.integration.virt.handler.node import Node
from tests.integration.virt.pod import Pod as PodProcess
from tests.integration.virt.pod import missing, pod, until

from hypercobalt.api.kubevirt.names import LAUNCHER_USER
from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance
from hypercobalt.lab.guest.bootsector import Program

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(240),
]


def mount(*command: str) -> None:
    subprocess.run(command, check=True)


@asynccontextmanager
async def guest(node: Node, program: Program) -> AsyncIterator[PodProcess]:
    """A VMI that was handed over, whose pod runs a real launcher; one second of grace."""
    made = await node.handed_over()

    def impatient(vmi: VirtualMachineInstance) -> VirtualMachineInstance:
        return replace(vmi, spec=replace(vmi.spec, terminationGracePeriodSeconds=1))

    vmi = await node.lab.kube.modify(VirtualMachineInstance, "vm", impatient, node.lab.namespace)
    assert vmi is not None
    seen = str(node.directory(made.metadata.uid))
    with pod(program) as here:
        await asyncio.to_thread(mount, "mount", "--bind", here.paths.sockets, seen)
        try:
            here.uid = vmi.metadata.uid
            here.start()
            yield here
        finally:
            await asyncio.to_thread(mount, "umount", seen)


async def ended(here: PodProcess) -> int:
    """The pod's exit code; no QEMU is left then."""
    code = await asyncio.to_thread(here.wait)
    await asyncio.to_thread(until, lambda: not here.qemu(), "the end of QEMU")
    return code


async def test_guest_outlives_its_handlers_and_is_ended_when_it_does_not_obey(
    lab: Lab, pods: Path
) -> None:
    node = Node(lab, pods)
    async with guest(node, "idle") as here:
        async with node.handler(user=LAUNCHER_USER):
            vmi = await lab.phase("Running")
            assert vmi.status.machine is not None
            assert vmi.status.machine.type.startswith("pc-q35")
            (first,) = here.qemu()
        assert here.qemu() == [first]
        async with node.handler(user=LAUNCHER_USER):
            await node.deletes()
            await lab.phase("Failed")
            assert await ended(here) == 0


async def test_guest_that_powers_off_makes_its_vmi_succeed(lab: Lab, pods: Path) -> None:
    node = Node(lab, pods)
    async with guest(node, "poweroff") as here, node.handler(user=LAUNCHER_USER):
        await lab.phase("Succeeded")
        assert await ended(here) == 0


async def test_killed_launcher_fails_its_vmi_and_leaves_no_guest(lab: Lab, pods: Path) -> None:
    node = Node(lab, pods)
    async with guest(node, "idle") as here, node.handler(user=LAUNCHER_USER):
        await lab.phase("Running")
        os.kill(here.launcher(), signal.SIGKILL)
        await lab.phase("Failed")
        await ended(here)
