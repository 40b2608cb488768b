"""Drills in which a part of the control plane is away for a while: an outage that is tolerated.

Nothing is killed, evacuated or run twice meanwhile, and what was due is done afterwards.
"""

from __future__ import annotations

import signal

from hypercobalt.drills.drill import Drill
from hypercobalt.drills.hosts import RECOVERY, is_back
from hypercobalt.drills.instances import kill
from hypercobalt.drills.record import DrillError, Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import control, processes
from hypercobalt.lab import operator as lab_operator

_AWAY = 10.0
_HANGS = 45.0  # seconds; longer than any Lease
_BACK = 90.0


async def all_well(stage: Stage, spared: str, pids: frozenset[int]) -> None:
    """Every host is in service, none was fenced, and a guest that never failed was left alone."""
    for host in stage.lab.hosts:
        await stage.becomes(host.name, "in service", is_back, within=_BACK)
        if fencing := (await stage.hypervisor(host.name)).status.fencing:
            raise DrillError(f"{host.name} was fenced: {fencing.evidence}")
    if stage.pids([spared]) != pids:
        raise DrillError(f"{spared} was restarted or moved, though nothing of it had failed")


async def operator_away(stage: Stage) -> None:
    """The agent writes down what is due; it starts nothing itself."""
    crashed, spared = await stage.vms("kvm-1", 2)
    pids = stage.pids([spared])
    await stage.do("the operator is killed", _end(stage, lab_operator.ROLE))
    killed = kill(stage, crashed)

    async def is_untouched() -> bool:
        return stage.pids([spared]) == pids and not stage.emulators(crashed)

    await stage.stays("the other guest runs on, nothing is started", is_untouched, seconds=_AWAY)
    if len(await stage.evictions()) != 1:
        raise DrillError(f"{len(await stage.evictions())} Evictions of one crash, not 1")
    await stage.do("the operator starts again", stage.lab.operator.start())
    await stage.runs([crashed], within=RECOVERY, not_pids=[killed])
    await stage.writes(crashed, within=20)
    await all_well(stage, spared, pids)


async def api_hangs(stage: Stage) -> None:
    """It takes connections and answers nothing: who waits for it has to notice by a deadline."""
    crashed, spared = await stage.vms("kvm-1", 2)
    pids = stage.pids([spared])
    _send(stage, control.ROLE, signal.SIGSTOP)
    stage.record.add(Mark.DONE, "the API server hangs")
    killed = kill(stage, crashed)

    async def is_untouched() -> bool:
        return stage.pids([spared]) == pids and not stage.emulators(crashed)

    await stage.stays("the other guest runs on, nothing is started", is_untouched, seconds=_HANGS)
    _send(stage, control.ROLE, signal.SIGCONT)
    # It ends when it loses its Lease; a Deployment starts it again.
    await stage.do("the API server goes on, the operator starts again", stage.lab.operator.start())
    await stage.runs([crashed], within=RECOVERY, not_pids=[killed])
    await all_well(stage, spared, pids)


async def ovn_away(stage: Stage) -> None:
    """The switches keep the flows that they have; a restart in place needs no new ones."""
    crashed, spared = await stage.vms("kvm-1", 2)
    pids = stage.pids([spared])
    await stage.do("OVN's databases and northd are killed", _end(stage, "ovn/"))
    killed = kill(stage, crashed)

    async def is_untouched() -> bool:
        return stage.pids([spared]) == pids

    await stage.stays("the other guest runs on", is_untouched, seconds=_AWAY)
    await stage.do("OVN's databases and northd start again", stage.lab.central.start())
    await stage.runs([crashed], within=RECOVERY, not_pids=[killed])
    await stage.writes(crashed, within=20)
    await all_well(stage, spared, pids)


async def _end(stage: Stage, role: str) -> None:
    await processes.kill(stage.lab.state.id, lambda process: process.role.startswith(role))


def _send(stage: Stage, role: str, number: int) -> None:
    for process in processes.find(stage.lab.state.id, role):
        processes.send(process, stage.lab.state.id, number)


DRILLS = (
    Drill("operator-away", "The operator is away while a guest crashes.", operator_away, 1),
    Drill(
        "api-hangs",
        "The API server answers nothing while a guest crashes.",
        api_hangs,
        1,
        in_ci=False,
    ),
    Drill("ovn-away", "OVN's databases are away while a guest crashes.", ovn_away, 1),
)
