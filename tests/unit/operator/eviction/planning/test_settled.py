"""Conditions that end or hold up a pass before its instances are assessed."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from tests.unit.operator.eviction.made import NOW, POLICY, entry, eviction, facts

from hypercobalt.api.conditions import Condition, set_condition
from hypercobalt.api.eviction import Eviction, EvictionStatus
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.errors import RefusedError, UnreachableError
from hypercobalt.compute.model import Host
from hypercobalt.operator.eviction.model.decision import EvictionPlan
from hypercobalt.operator.eviction.planning.settled import settled


def hypervisor(*, registered: bool = False, instances: int = 0, libvirt: str = "") -> Hypervisor:
    conditions: tuple[Condition, ...] = ()
    if libvirt:
        conditions = set_condition(
            (), "LibVirtConnection", libvirt, "ConnectFailed", "refused", now=NOW.now
        )
    status = HypervisorStatus(
        conditions=conditions,
        hypervisorId="h" if registered else None,
        serviceId="s" if registered else None,
        numInstances=instances,
    )
    return Hypervisor(metadata=ObjectMeta(name="here"), spec=HypervisorSpec(), status=status)


def status(type_: str, value: str, reason: str, *phases: str) -> EvictionStatus:
    conditions = set_condition((), type_, value, reason, "", now=NOW.now)
    entries = tuple(entry(str(n), phase) for n, phase in enumerate(phases))
    return EvictionStatus(instances=entries, conditions=conditions)


HALF = Hypervisor(
    metadata=ObjectMeta(name="here"),
    spec=HypervisorSpec(),
    status=HypervisorStatus(serviceId="s", numInstances=0),
)
OTHER_HALF = Hypervisor(
    metadata=ObjectMeta(name="here"),
    spec=HypervisorSpec(),
    status=HypervisorStatus(hypervisorId="h", numInstances=0),
)
OURS, HOST = hypervisor(), Host("here", "h", "s", enabled=False)
ENDED = eviction(status("Evicting", "False", "Succeeded"))
CHECKED = ("PreflightChecksSucceeded", "True", "Succeeded")
MOVING = eviction(status(*CHECKED, "Migrating"))
EMPTY = eviction(status(*CHECKED))
NOWHERE = {"looked": True, "hypervisor": OURS}
LONG = POLICY.patience + timedelta(seconds=1)


def outcome(plan: EvictionPlan | None) -> str:
    match plan:
        case None:
            return "goes on"
        case EvictionPlan(end=end, release=True) if end is not None:
            return f"ends {end.reason}: {end.message}"
        case EvictionPlan(release=True):
            return "released"
        case EvictionPlan(wait=wait) if wait is not None:
            return f"waits {plan.look_again}: {wait.message}"
        case _:
            return "nothing"


@pytest.mark.parametrize(
    ("of", "read", "plan"),
    [
        pytest.param(ENDED, {"hypervisor": OURS}, "released", id="over: never opened again"),
        pytest.param(eviction(), {"of_other_shard": True}, "nothing", id="another shard's"),
        pytest.param(eviction(), {}, "waits 0:00:10: .*here does not exist", id="no Hypervisor"),
        pytest.param(
            eviction(name="there", trigger="HostShutdown"),
            {"hypervisor": OURS, "trouble": UnreachableError("503")},
            "ends Failed: .*named here",
            id="refused, whatever the compute service answers",
        ),
        pytest.param(
            eviction(trigger="NodeFailure"),
            {"hypervisor": OURS, "looked": True, "host": HOST},
            "goes on",
            id="a dead host",
        ),
        pytest.param(
            eviction(mode="evacuate"),
            {"hypervisor": OURS, "host": HOST, "trouble": UnreachableError("no route")},
            "waits 0:00:05: .*once here is proven dead.*no route",
            id="a host that is dead, and not proven to be",
        ),
        pytest.param(
            eviction(),
            {"hypervisor": OURS, "trouble": UnreachableError("503")},
            "waits 0:00:05: .*cannot read from .*: 503",
            id="the compute service is away",
        ),
        pytest.param(
            eviction(),
            {
                "hypervisor": OURS,
                "trouble": UnreachableError("429", retry_after=timedelta(seconds=60)),
            },
            "waits 0:01:00: ",
            id="the compute service reports for how long it is away",
        ),
        pytest.param(
            eviction(),
            {"hypervisor": OURS, "trouble": RefusedError("403")},
            "waits 0:00:05: .*403",
            id="the compute service refuses",
        ),
        pytest.param(eviction(), {"hypervisor": OURS}, "goes on", id="the host is not read yet"),
        pytest.param(
            eviction(),
            {"hypervisor": OURS, "looked": True, "host": HOST},
            "goes on",
            id="host read",
        ),
        pytest.param(eviction(), NOWHERE, "ends Succeeded: .*never registered", id="no such host"),
        pytest.param(
            eviction(),
            {"looked": True, "hypervisor": hypervisor(instances=2)},
            "ends Failed: .*2 instances there",
            id="no such host, but instances",
        ),
        pytest.param(
            eviction(),
            {"looked": True, "hypervisor": hypervisor(libvirt="True")},
            "ends Succeeded: .*never registered",
            id="no such host, and its agent lists no instance",
        ),
        pytest.param(
            eviction(),
            {"looked": True, "hypervisor": hypervisor(libvirt="False")},
            "waits 0:00:10: .*cannot list its instances: refused",
            id="no such host, and its agent does not reach libvirt",
        ),
        pytest.param(
            eviction(),
            {"looked": True, "hypervisor": hypervisor(registered=True)},
            "ends Failed: .*got 404",
            id="a host that was registered",
        ),
        pytest.param(
            eviction(EvictionStatus(instances=(entry(),))),
            {"looked": True, "hypervisor": hypervisor(registered=True)},
            "ends Failed: .*got 404",
            id="a host that was registered: nothing has begun, so no wait",
        ),
        pytest.param(
            eviction(),
            {"looked": True, "hypervisor": HALF},
            "ends Succeeded: .*never registered",
            id="a host that was registered in part",
        ),
        pytest.param(
            eviction(),
            {"looked": True, "hypervisor": OTHER_HALF},
            "ends Succeeded: .*never registered",
            id="a host that was registered in its other part",
        ),
        pytest.param(
            MOVING, NOWHERE, "waits 0:00:05: .*got 404", id="moves are under way: for a moment"
        ),
        pytest.param(
            MOVING,
            NOWHERE | {"unknown_for": POLICY.patience},
            "waits",
            id="moves are under way: for as long as an instance is waited for",
        ),
        pytest.param(
            MOVING, NOWHERE | {"unknown_for": LONG}, "ends Failed", id="moves are under way: lost"
        ),
        pytest.param(EMPTY, NOWHERE, "ends Failed", id="nothing was there: no wait"),
        pytest.param(
            EMPTY, NOWHERE | {"lingered": True}, "waits", id="something was counted there: a wait"
        ),
    ],
)
def test_pass_is_settled_by_what_was_read(of: Eviction, read: dict[str, object], plan: str) -> None:
    found = outcome(settled(facts(of, **read), POLICY))
    assert re.match(plan, found), found
