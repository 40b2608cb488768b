"""Two virt-controllers under one lease."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.integration.runtime.scripted import eventually
from tests.integration.virt.controller.world import (
    DEADLINE,
    Handler,
    Lab,
    controller,
    handed_over,
)

from hypercobalt.errors import TransientError
from hypercobalt.runtime import Election, Timing

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOON = Timing(timedelta(seconds=2), timedelta(seconds=1.5), timedelta(seconds=0.2))


class Network:
    """A guard that can cut off the writes of a process."""

    def __init__(self) -> None:
        self.cut = False

    def __call__(self) -> None:
        if self.cut:
            raise TransientError("cut off")


async def test_second_takes_over_and_creates_no_second_pod(lab: Lab) -> None:
    network = Network()
    one, two = (Election("virt-controller", lab.namespace, name, SOON) for name in ("one", "two"))
    async with controller(lab.kubeconfig, election=one, guard=network) as first:
        await eventually(lambda: first.leads, seconds=DEADLINE)
        async with controller(lab.kubeconfig, election=two) as second:
            await lab.add()
            await lab.phase("Scheduling")
            assert not second.leads
            network.cut = True
            first.task.cancel()
            await asyncio.wait({first.task}, timeout=DEADLINE)
            vmi = await handed_over(lab)
            await Handler(lab).sets("Running")
            assert second.leads
            (pod,) = await lab.pods()
            assert list(vmi.status.activePods) == [pod.metadata.uid]
            calls = second.calls()
    assert "create pods" not in calls
