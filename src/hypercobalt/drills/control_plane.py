"""Drills in which the control plane fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from hypercobalt.api.fencing import FencingPhase
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.instances import end
from hypercobalt.drills.outcomes import RECOVERY, none_fenced, recovered
from hypercobalt.drills.record import DrillError
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import control
from hypercobalt.lab import operator as lab_operator
from hypercobalt.runtime.tasks import beside

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

    async with beside(keep(), name="deployment"):
        yield


async def away(stage: Stage) -> None:
    crashed, spared = await stage.vms("kvm-1", 2)
    pids = stage.pids([spared])
    await stage.do("the API server is killed", stage.kill(control.ROLE))
    killed = await end(stage, crashed)

    async def untouched() -> bool:
        return stage.pids([spared]) == pids and not stage.emulators(crashed)

    await stage.stays("the other guest runs on, nothing is started", untouched, seconds=_AWAY)
    await stage.do("the API server starts again", stage.lab.control.start())
    # It ends when it loses its Lease; a Deployment starts it again.
    await stage.do("so does the operator", stage.lab.operator.start())
    await stage.runs([crashed, spared], within=RECOVERY, not_pids=[killed])
    if stage.pids([spared]) != pids:
        raise DrillError("a guest that ran was restarted")
    await none_fenced(stage)


async def operator_dies(stage: Stage) -> None:
    vms = await stage.vms("kvm-1", 2)
    began = await stage.power_cut("kvm-1")

    async def is_attempted() -> bool:
        fencing = (await stage.hypervisor("kvm-1")).status.fencing
        return fencing is not None and fencing.phase == FencingPhase.ATTEMPTING

    await stage.until("an attempt to fence is recorded", is_attempted, within=RECOVERY)
    await stage.do("the operator is killed", stage.kill(lab_operator.ROLE))
    await stage.do("another operator starts", stage.lab.operator.start())
    await recovered(stage, "kvm-1", vms, began)


DRILLS = (
    Drill("api-away", "The API server is away while a guest crashes: nothing is killed.", away),
    Drill(
        "operator-dies",
        "The operator dies while it fences a host: the next leader continues.",
        operator_dies,
    ),
)
