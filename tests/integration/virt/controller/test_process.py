"""`cobalt virt-controller` as a process."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.integration.virt.controller.world import DEADLINE, Lab

from hypercobalt.api.kubevirt.vmi import VirtualMachineInstance

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(120)]

FREE = "127.0.0.1:0"


@asynccontextmanager
async def cobalt(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `cobalt virt-controller`, and end it with the block."""
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from hypercobalt.cli import main; main()", "virt-controller"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield started
    finally:
        with contextlib.suppress(ProcessLookupError):
            started.kill()
        await started.communicate()


async def test_process_makes_the_pod_that_the_room_of_pods_renders(lab: Lab) -> None:
    await lab.add()
    flags = ("--kubeconfig", str(lab.kubeconfig), "--health-probe-bind-address", FREE)
    async with cobalt(*flags, "--use-emulation", "--no-leader-elect") as running:
        vmi = await lab.phase("Scheduling")
        (pod,) = await lab.pods()
        running.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(running.wait(), DEADLINE) == 0
    assert pod.metadata.labels["kubevirt.io/created-by"] == vmi.metadata.uid
    assert pod.spec.terminationGracePeriodSeconds == 60
    limits = pod.spec.containers[0].resources
    assert limits is not None
    assert "devices.kubevirt.io/kvm" not in limits.limits


async def test_kubeconfig_that_is_missing_is_an_invalid_request() -> None:
    async with cobalt("--kubeconfig", "/nowhere/at/all") as running:
        _, said = await asyncio.wait_for(running.communicate(), DEADLINE)
    assert running.returncode == 2
    assert b"/nowhere/at/all" in said


async def test_vmi_that_no_pod_can_be_made_of_has_a_condition_and_waits(lab: Lab) -> None:
    await lab.add()
    broken = {"spec": {"domain": {"memory": None}}}
    await lab.kube.merge_patch(VirtualMachineInstance, "vm", broken, lab.namespace)
    flags = ("--kubeconfig", str(lab.kubeconfig), "--health-probe-bind-address", FREE)
    async with cobalt(*flags, "--no-leader-elect"):
        vmi = await lab.until(lambda v: bool(v.status.conditions))
    (shown,) = vmi.status.conditions
    assert (vmi.status.phase, shown.type, shown.reason) == (
        "Pending",
        "Synchronized",
        "FailedCreate",
    )
    assert "spec.domain.memory.guest" in shown.message
