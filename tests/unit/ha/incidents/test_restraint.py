"""What holds reactions back on a host."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from hypercobalt.api.conditions import ConditionStatus, set_condition
from hypercobalt.api.fencing import Fencing, FencingPhase
from hypercobalt.api.ha_switch import HA_ENABLED
from hypercobalt.api.hypervisor import Hypervisor, HypervisorSpec, Maintenance
from hypercobalt.api.hypervisor_host import HyperVisorUpdateStatus
from hypercobalt.api.hypervisor_status import HypervisorStatus
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.recovery import Recovery
from hypercobalt.ha.incidents.restraint import Restraint, restraint, returning

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def status(type_: str, value: ConditionStatus, reason: str) -> HypervisorStatus:
    return HypervisorStatus(conditions=set_condition((), type_, value, reason, "", now=NOW))


BUSY: dict[str, tuple[HypervisorSpec, HypervisorStatus, str]] = {
    **{
        f"maintenance {kind}": (
            HypervisorSpec(maintenance=kind),
            HypervisorStatus(),
            f"maintenance: {kind}",
        )
        for kind in (m for m in Maintenance if m)
    },
    "onboarding": (
        HypervisorSpec(),
        status("Onboarding", ConditionStatus.TRUE, "Testing"),
        "onboarding is not finished: Testing",
    ),
    "evicting": (
        HypervisorSpec(),
        status("Evicting", ConditionStatus.TRUE, "Running"),
        "the host is being evicted",
    ),
    "update": (
        HypervisorSpec(),
        HypervisorStatus(updateStatus=HyperVisorUpdateStatus(inProgress=True, retry=3)),
        "the operating system is being updated",
    ),
}
TURNED_OFF: dict[str, tuple[HypervisorSpec, HypervisorStatus, str]] = {
    "lifecycle off": (
        HypervisorSpec(lifecycleEnabled=False),
        HypervisorStatus(),
        "lifecycleEnabled is false",
    ),
    "HA off": (
        HypervisorSpec(highAvailability=False),
        HypervisorStatus(),
        "highAvailability is false",
    ),
    "HA off, in maintenance": (
        HypervisorSpec(highAvailability=False, maintenance="manual"),
        HypervisorStatus(),
        "highAvailability is false",
    ),
    "terminating": (
        HypervisorSpec(),
        status("Terminating", ConditionStatus.TRUE, "Terminating"),
        "the Node is terminating",
    ),
}


def test_update_that_is_over_holds_nothing_back() -> None:
    over = HypervisorStatus(updateStatus=HyperVisorUpdateStatus(inProgress=False, retry=0))
    assert restraint(Hypervisor(spec=HypervisorSpec(), status=over)) is None


@pytest.mark.parametrize(
    ("spec", "has", "why", "for_good"),
    [
        pytest.param(*case, for_good, id=name)
        for for_good, cases in ((False, BUSY), (True, TURNED_OFF))
        for name, case in cases.items()
    ],
)
def test_host_is_held_back_while_a_controller_works_on_it(
    spec: HypervisorSpec, has: HypervisorStatus, why: str, *, for_good: bool
) -> None:
    found = Hypervisor(metadata=ObjectMeta(name="kvm-a"), spec=spec, status=has)
    assert restraint(found) == Restraint(why, for_good=for_good)


def test_host_without_a_hypervisor_is_held_back_until_there_is_one() -> None:
    assert restraint(None) == Restraint("the host has no Hypervisor")


@pytest.mark.parametrize(
    "has",
    [
        pytest.param(HypervisorStatus(), id="new"),
        pytest.param(status("Onboarding", ConditionStatus.FALSE, "Succeeded"), id="onboarded"),
        pytest.param(
            HypervisorStatus(bootID="b2", fencing=Fencing(phase=FencingPhase.FENCED, bootID="b1")),
            id="another boot was fenced",
        ),
    ],
)
def test_a_host_at_work_is_not_held_back(has: HypervisorStatus) -> None:
    assert restraint(Hypervisor(metadata=ObjectMeta(name="kvm-a"), status=has)) is None


@pytest.mark.parametrize(
    ("maintenance", "boot", "waits"),
    [
        ("", "b1", True),
        ("ha", "b1", True),
        ("ha", "b2", True),
        ("auto", "b2", False),
        ("", "b2", False),
    ],
)
def test_reactions_wait_until_the_ha_service_gives_the_host_back(
    maintenance: str, boot: str, waits: bool
) -> None:
    found = Hypervisor(
        metadata=ObjectMeta(name="kvm-a"),
        spec=HypervisorSpec(maintenance=maintenance),
        status=HypervisorStatus(
            bootID=boot, fencing=Fencing(phase=FencingPhase.FENCED, bootID="b1")
        ),
    )
    assert bool(returning(found, of_this_boot=True)) is waits


@pytest.mark.parametrize(
    ("phase", "fenced", "this_boot", "free"),
    [
        pytest.param("Recovering", None, True, True, id="moved live"),
        pytest.param("Recovered", None, True, True, id="none is left that runs"),
        pytest.param("Recovered", FencingPhase.RELEASED, True, True, id="fenced once"),
        pytest.param("Recovering", None, False, False, id="ended by the boot"),
        pytest.param("Recovering", FencingPhase.ATTEMPTING, True, False, id="being fenced"),
        pytest.param("Recovering", FencingPhase.FENCED, True, False, id="a former boot is fenced"),
        pytest.param("Returning", None, True, False, id="given back in a moment"),
        pytest.param(None, None, True, False, id="another HA service"),
    ],
)
def test_crash_on_a_host_that_is_drained_is_recovered(
    phase: str | None, fenced: str | None, *, this_boot: bool, free: bool
) -> None:
    conditions = set_condition((), "Evicting", "True", "Running", "", now=NOW)
    status = HypervisorStatus(
        bootID="b2",
        fencing=Fencing(phase=fenced, bootID="b1") if fenced else None,
        recovery=Recovery(phase) if phase else None,
        conditions=conditions,
    )
    found = Hypervisor(
        metadata=ObjectMeta(name="kvm-a"), spec=HypervisorSpec(maintenance="ha"), status=status
    )
    assert (returning(found, of_this_boot=this_boot) == "") is free
    if this_boot:
        assert (restraint(found) is None) is free


def test_a_hypervisor_that_is_being_deleted_is_left_alone() -> None:
    meta = replace(ObjectMeta(name="kvm-a"), deletionTimestamp=NOW)
    found = restraint(Hypervisor(metadata=meta))
    assert found == Restraint("the Hypervisor is being deleted", for_good=True)


@pytest.mark.parametrize(("value", "held"), [("false", True), ("true", False), ("", False)])
def test_host_that_a_controller_has_switched_off_is_left_alone(value: str, *, held: bool) -> None:
    meta = ObjectMeta(name="kvm-a", annotations={HA_ENABLED: value})
    found = restraint(Hypervisor(metadata=meta, spec=HypervisorSpec(highAvailability=True)))
    off = Restraint(f"the annotation {HA_ENABLED} is false", for_good=True)
    assert found == (off if held else None)
