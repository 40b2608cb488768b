"""When a host is not recovered automatically, and why."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.records import recorded
from tests.unit.operator.samples import NOW, condition, hypervisor

from hypercobalt.api.conditions import Condition, set_condition
from hypercobalt.api.eviction import Eviction, EvictionSpec, EvictionStatus
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.ha_switch import HA_ENABLED, PAUSE
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.compute.model import Host
from hypercobalt.operator.ha.model.plan import BEFORE
from hypercobalt.operator.ha.observing.silenced import is_abandoned, silenced
from hypercobalt.operator.shared.evictions import FINALIZER

SPEC = HypervisorSpec(highAvailability=True, lifecycleEnabled=True)
IN_SERVICE = condition("Onboarding", "False", "Succeeded")
HOST = Host("kvm-a", "h", "s", enabled=True, servers=("i1",))
EMPTY = Host("kvm-a", "h", "s", enabled=True)


def made(
    *conditions: Condition,
    spec: HypervisorSpec = SPEC,
    notes: dict[str, str] | None = None,
    counts: int | None = 4,
    fenced: str = "",
) -> Hypervisor:
    """Its last boot is b1; `fenced` is the boot that is proven dead."""
    proof = Fencing(phase=FencingPhase.FENCED, bootID=fenced) if fenced else None
    status = HypervisorStatus(
        conditions=conditions, numInstances=counts, bootID="b1", fencing=proof
    )
    return recorded(hypervisor(spec=spec, annotations=notes, status=status))


def deleted(of: Hypervisor, *finalizers: str) -> Hypervisor:
    return replace(of, metadata=replace(of.metadata, deletionTimestamp=NOW, finalizers=finalizers))


MANUAL = replace(SPEC, maintenance="manual", maintenanceReason="fan")
TERMINATION = replace(SPEC, maintenance="termination")
RUNNING = Eviction(metadata=ObjectMeta(name="kvm-a"), spec=EvictionSpec("kvm-a", "fan"))
OVER = replace(
    RUNNING,
    status=EvictionStatus(
        conditions=set_condition((), "Evicting", "False", "Succeeded", "", now=NOW)
    ),
)


@pytest.mark.parametrize(
    ("host", "evictions", "why"),
    [
        pytest.param(made(IN_SERVICE), (), "", id="in service"),
        pytest.param(made(IN_SERVICE, notes={PAUSE: "upgrade"}), (), "upgrade", id="paused"),
        pytest.param(
            made(IN_SERVICE, notes={PAUSE: ""}), (), "no reason given", id="paused without a reason"
        ),
        pytest.param(
            made(IN_SERVICE, notes={HA_ENABLED: "false"}), (), HA_ENABLED, id="switched off"
        ),
        pytest.param(made(IN_SERVICE, notes={HA_ENABLED: "true"}), (), "", id="switched on"),
        pytest.param(
            made(IN_SERVICE, spec=replace(SPEC, highAvailability=False)),
            (),
            "spec.highAvailability is false",
            id="not wanted",
        ),
        pytest.param(
            made(IN_SERVICE, spec=replace(SPEC, lifecycleEnabled=False)),
            (),
            "spec.lifecycleEnabled is false",
            id="not managed",
        ),
        pytest.param(made(), (), "not in service", id="not onboarded"),
        pytest.param(
            made(condition("Onboarding", "True", "Testing")),
            (),
            "not in service",
            id="onboarded now",
        ),
        pytest.param(
            made(condition("Onboarding", "True", "Handover")), (), "", id="onboarded, not closed"
        ),
        pytest.param(made(spec=TERMINATION), (), "", id="about to leave"),
        pytest.param(
            made(spec=replace(SPEC, maintenance="ha"), notes={BEFORE: "termination"}),
            (),
            "",
            id="about to leave, and failed",
        ),
        pytest.param(
            made(IN_SERVICE, condition("Registered", "False", "Claimed", "kvm-b has its name")),
            (),
            "kvm-b has its name",
            id="another Hypervisor is of this host",
        ),
        pytest.param(
            made(IN_SERVICE, condition("Registered", "False", "Unreachable", "no answer")),
            (),
            "",
            id="the compute service did not answer",
        ),
        pytest.param(
            made(IN_SERVICE, spec=MANUAL), (), "no Eviction empties it", id="a person has it"
        ),
        pytest.param(
            made(IN_SERVICE, spec=MANUAL), (OVER,), "no Eviction empties it", id="it was emptied"
        ),
        pytest.param(made(IN_SERVICE, spec=MANUAL), (RUNNING,), "", id="it is being emptied"),
        pytest.param(deleted(made(IN_SERVICE)), (), "is being deleted", id="it is deleted"),
        pytest.param(
            deleted(made(IN_SERVICE), FINALIZER), (), "", id="it was silent before it was deleted"
        ),
        pytest.param(
            deleted(made(IN_SERVICE, fenced="b1")), (), "", id="it was dead before it was deleted"
        ),
        pytest.param(
            deleted(made(IN_SERVICE, fenced="b0")), (), "is being deleted", id="of another boot"
        ),
        pytest.param(
            deleted(made(IN_SERVICE), "x/y"), (), "is being deleted", id="something else keeps it"
        ),
    ],
)
def test_host_is_not_recovered_for_a_reason(
    host: Hypervisor, evictions: tuple[Eviction, ...], why: str
) -> None:
    found = silenced(host, HOST, evictions)
    assert why in found
    assert bool(found) is bool(why)


@pytest.mark.parametrize(
    ("host", "why", "given_up"),
    [
        pytest.param(made(IN_SERVICE), "no such host", False, id="its agent has reported four"),
        pytest.param(
            made(IN_SERVICE, counts=0), "no instance", True, id="its agent has reported none"
        ),
        pytest.param(
            made(IN_SERVICE, counts=0, fenced="b1"), "no such host", False, id="proven dead"
        ),
        pytest.param(
            replace(made(IN_SERVICE), status=HypervisorStatus(conditions=(IN_SERVICE,))),
            "no such host",
            False,
            id="its agent has reported nothing",
        ),
        pytest.param(made(IN_SERVICE, notes={PAUSE: "scrap"}), "scrap", True, id="paused"),
    ],
)
def test_host_that_the_compute_service_does_not_list_is_left_alone(
    host: Hypervisor, why: str, *, given_up: bool
) -> None:
    """Without OpenStack an absence from the list, for want of an address, gives no host up."""
    found = silenced(host, None, ())
    assert why in found
    assert is_abandoned(found, counts_servers=True)
    assert is_abandoned(found, counts_servers=False) is given_up


@pytest.mark.parametrize("counts", [True, False])
def test_host_that_is_not_silenced_is_not_given_up(*, counts: bool) -> None:
    assert not is_abandoned(silenced(made(IN_SERVICE), HOST, ()), counts_servers=counts)


@pytest.mark.parametrize(
    ("host", "counts", "fenced", "why"),
    [
        pytest.param(EMPTY, 0, "", "no instance is on the host", id="nothing is there"),
        pytest.param(EMPTY, None, "", "no instance is on the host", id="nothing was ever there"),
        pytest.param(HOST, 0, "", "", id="the compute service lists one"),
        pytest.param(EMPTY, 1, "", "", id="its node agent has reported one"),
        pytest.param(EMPTY, 0, "b1", "", id="proven dead: it is to be taken back"),
    ],
)
def test_host_without_instances_is_left_alone(
    host: Host, counts: int | None, fenced: str, why: str
) -> None:
    assert silenced(made(IN_SERVICE, counts=counts, fenced=fenced), host, ()) == why
