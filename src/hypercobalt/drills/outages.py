"""Drills in which a part of the control plane is away for a while: an outage that is tolerated.

Nothing is killed, evacuated or run twice meanwhile, and what was due is done afterwards.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from hypercobalt.api.conditions import get_condition
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_conditions import (
    AcceptsReason,
    HypervisorConditionType,
    NetworkHealthyReason,
)
from hypercobalt.drills.drill import Drill
from hypercobalt.drills.instances import end
from hypercobalt.drills.outcomes import (
    RECOVERY,
    all_in_service,
    is_back,
    none_fenced,
    recovered,
)
from hypercobalt.drills.record import DrillError, Mark
from hypercobalt.drills.stage import Stage
from hypercobalt.lab import control
from hypercobalt.lab import operator as lab_operator
from hypercobalt.lab.ovn import Part

_Why = NetworkHealthyReason
_AWAY = 10.0
_HANGS = 45.0  # seconds; longer than any Lease
_BACK = 90.0
_SEEN = 40.0  # seconds; agents probe the southbound database each 10 s, twice


async def all_well(stage: Stage, spared: str, pids: frozenset[int]) -> None:
    """Every host is in service, none was fenced, and a guest that never failed was left alone."""
    await all_in_service(stage, within=_BACK)
    await none_fenced(stage)
    if stage.pids([spared]) != pids:
        raise DrillError(f"{spared} was restarted or moved, though nothing of it had failed")


async def operator_away(stage: Stage) -> None:
    """The agent writes down what is due; it starts nothing itself."""
    crashed, spared = await stage.vms("kvm-1", 2)
    pids = stage.pids([spared])
    await stage.do("the operator is killed", stage.kill(lab_operator.ROLE))
    killed = await end(stage, crashed)

    async def is_untouched() -> bool:
        return stage.pids([spared]) == pids and not stage.emulators(crashed)

    await stage.stays("the other guest runs on, nothing is started", is_untouched, seconds=_AWAY)
    if len(await stage.evictions()) != 1:
        raise DrillError(f"{len(await stage.evictions())} Evictions of one crash, not 1")
    await stage.do("the operator starts again", stage.lab.operator.start())
    await stage.runs([crashed], within=RECOVERY, not_pids=[killed])
    await stage.write(crashed)
    await all_well(stage, spared, pids)


async def api_hangs(stage: Stage) -> None:
    """The API server accepts connections and answers nothing: clients notice by their deadlines."""
    crashed, spared = await stage.vms("kvm-1", 2)
    pids = stage.pids([spared])
    stage.signal(control.ROLE, signal.SIGSTOP)
    stage.record.add(Mark.DONE, "the API server hangs")
    killed = await end(stage, crashed)

    async def is_untouched() -> bool:
        return stage.pids([spared]) == pids and not stage.emulators(crashed)

    await stage.stays("the other guest runs on, nothing is started", is_untouched, seconds=_HANGS)
    stage.signal(control.ROLE, signal.SIGCONT)
    # It ends when it loses its Lease; a Deployment starts it again.
    await stage.do(
        "the API server continues, the operator starts again", stage.lab.operator.start()
    )
    await stage.runs([crashed], within=RECOVERY, not_pids=[killed])
    await all_well(stage, spared, pids)


async def ovn_away(stage: Stage) -> None:
    """The switches keep the flows that they have; a restart in place needs no new ones."""
    crashed, spared = await stage.vms("kvm-1", 2)
    pids = stage.pids([spared])
    await stage.do("OVN's databases and northd are killed", stage.kill("ovn/"))
    killed = await end(stage, crashed)

    async def is_untouched() -> bool:
        return stage.pids([spared]) == pids

    await stage.stays("the other guest runs on", is_untouched, seconds=_AWAY)
    await stage.do("OVN's databases and northd start again", stage.lab.central.start())
    await stage.runs([crashed], within=RECOVERY, not_pids=[killed])
    await stage.write(crashed)
    await all_well(stage, spared, pids)


async def southbound_hangs(stage: Stage) -> None:
    """One incident of all hosts: it closes none, and evacuates to hosts that bind no ports."""
    vms = await stage.vms("kvm-1", 2)
    central, names = stage.lab.central, [host.name for host in stage.lab.hosts]
    for name in names:
        await stage.becomes(name, "its network is healthy", _has(_Why.HEALTHY), within=_SEEN)
    await stage.do("OVN's southbound database hangs", central.hang([Part.SB]))
    for name in names:
        await stage.becomes(name, "OVNDisconnected", _has(_Why.OVN_DISCONNECTED), within=_SEEN)
    await _none_is_closed(stage, names)
    began = await stage.power_cut("kvm-1")
    await recovered(stage, "kvm-1", vms, began)
    await _none_is_closed(stage, names[1:])
    await stage.do("the southbound database continues", central.repair([Part.SB]))
    for name in names[1:]:
        await stage.becomes(name, "its network is healthy", _has(_Why.HEALTHY), within=_SEEN)
        await stage.becomes(name, "in service, not fenced", _is_untouched, within=1)


async def _none_is_closed(stage: Stage, names: list[str]) -> None:
    if closed := [name for name in names if _is_closed(await stage.hypervisor(name))]:
        raise DrillError(f"closed for what is no fault of theirs: {', '.join(closed)}")


def _is_closed(hypervisor: Hypervisor) -> bool:
    """Whether its network closes the host; on a busy machine its Node may be late for a moment."""
    found = get_condition(hypervisor.conditions, HypervisorConditionType.ACCEPTS_NEW_INSTANCES)
    return found is None or found.reason == AcceptsReason.NETWORK_BROKEN


def _has(reason: NetworkHealthyReason) -> Callable[[Hypervisor], bool]:
    def is_so(hypervisor: Hypervisor) -> bool:
        found = get_condition(hypervisor.conditions, HypervisorConditionType.NETWORK_HEALTHY)
        return found is not None and found.reason == reason

    return is_so


def _is_untouched(hypervisor: Hypervisor) -> bool:
    return is_back(hypervisor) and hypervisor.status.fencing is None


DRILLS = (
    Drill(
        "operator-away",
        "The operator is away while a guest crashes.",
        operator_away,
        1,
        in_ci=False,
    ),
    Drill(
        "api-hangs",
        "The API server answers nothing while a guest crashes.",
        api_hangs,
        1,
        in_ci=False,
    ),
    Drill("ovn-away", "OVN's databases are away while a guest crashes.", ovn_away, 1, in_ci=False),
    Drill(
        "southbound-hangs",
        "OVN's southbound database hangs while a host loses power: evacuated, no host is closed.",
        southbound_hangs,
        2,
    ),
)
