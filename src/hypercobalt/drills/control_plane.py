"""Drills in which the control plane fails."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

from hypercobalt.api.fencing import FencingPhase
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.hosts import RECOVERY, recovered
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import control
from hypercobalt.lab import operator as lab_operator

_AWAY = 30.0  # seconds; longer than the grace period of Nodes


@asynccontextmanager
async def deployment(stage: Stage) -> AsyncGenerator[None]:
    """Start the operator whenever it has ended, as its Deployment does.

    It ends when it loses its Lease, which is a while after the API server has gone.
    """

    async def keep() -> None:
        while True:
            if not stage.lab.operator.is_running:
                await stage.do("the operator starts again", stage.lab.operator.start())
            await asyncio.sleep(1)  # nothing reports the end of a process that another one started

    task = asyncio.create_task(keep(), name="deployment")
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def away(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    lab = stage.lab
    pids = {vm: stage.emulators(vm)[0].pid for vm in vms}
    await stage.do("the API server is killed", stage.kill(control.ROLE))
    os.kill(pids[vms[0]], signal.SIGKILL)

    async def untouched() -> bool:
        return [e.pid for e in stage.emulators(vms[1])] == [pids[vms[1]]] and not stage.emulators(
            vms[0]
        )

    await stage.stays("the other guest runs on, nothing is started", untouched, seconds=_AWAY)
    await stage.do("the API server starts again", lab.control.start())
    # It ends when it loses its Lease; a Deployment starts it again.
    await stage.do("so does the operator", lab.operator.start())
    await stage.runs(vms, within=RECOVERY, not_pids=[pids[vms[0]]])
    if [e.pid for e in stage.emulators(vms[1])] != [pids[vms[1]]]:
        raise DrillError("a guest that ran was restarted")
    for host in lab.hosts:
        fencing = (await stage.hypervisor(host.name)).status.fencing
        if fencing is not None:
            raise DrillError(f"{host.name} was fenced: {fencing.evidence}")


async def operator_dies(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    began = stage.record.now
    await stage.do("power cut of kvm-1", stage.host("kvm-1").crash())

    async def is_attempted() -> bool:
        fencing = (await stage.hypervisor("kvm-1")).status.fencing
        return fencing is not None and fencing.phase == FencingPhase.ATTEMPTING

    await stage.until("an attempt to fence is recorded", is_attempted, within=RECOVERY)
    await stage.do("the operator is killed", stage.kill(lab_operator.ROLE))
    await stage.do("another operator starts", stage.lab.operator.start())
    await recovered(stage, "kvm-1", vms, began)


DRILLS = (
    Drill("api-away", "The API server is away while a guest crashes: nothing is killed.", away),
    Drill("operator-dies", "The operator dies while it fences: another goes on.", operator_dies),
)
