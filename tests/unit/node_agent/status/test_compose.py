from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from hypercobalt.adapters.host.boot import Boot
from hypercobalt.adapters.libvirt.model import (
    DomainCapabilities,
    HostCapabilities,
    HostCell,
    Versions,
)
from hypercobalt.agent.board import ConditionReport
from hypercobalt.agent.status import holds, leftovers
from hypercobalt.api.conditions import AGENT_MESSAGE, Condition, ConditionStatus
from hypercobalt.api.diagnostics import DiagnosticsEndpoint
from hypercobalt.api.fencing import GuestsStopped
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.api.hypervisor_host import HyperVisorUpdateStatus, OperatingSystemStatus
from hypercobalt.api.hypervisor_status import HypervisorStatus, Instance
from hypercobalt.api.meta import ObjectMeta
from hypercobalt.api.schema import Writer
from hypercobalt.api.writers import written_by
from hypercobalt.node_agent.status.compose import compose
from hypercobalt.node_agent.status.inventory import FIELDS
from hypercobalt.node_agent.status.parts import Inventory, Parts, RunningLauncher

THEN = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
NOW = THEN + timedelta(hours=1)
TRUE, FALSE = ConditionStatus.TRUE, ConditionStatus.FALSE
LINK, UNIT = "LibVirtConnection", "libvirtd.service"
OWN = (LINK, UNIT)
INVENTORY = Inventory(
    Versions("9.0.0", "7.2.22"),
    HostCapabilities("x86_64", (HostCell(0, 1024, frozenset({0}), 1),)),
    DomainCapabilities("x86_64", "kvm"),
)
STORED = HypervisorStatus(
    libVirtVersion="8.0.0",
    numInstances=1,
    instances=(Instance(id="u1", name="vm1", active=True),),
    hypervisorId="theirs",
)


def condition(type_: str, status: str = "True", message: str = "") -> Condition:
    return Condition(
        type=type_, status=status, reason="Why", message=message, lastTransitionTime=THEN
    )


def stored(*conditions: Condition, generation: int = 3) -> Hypervisor:
    return Hypervisor(
        metadata=ObjectMeta(name="kvm-a", generation=generation),
        status=replace(STORED, conditions=conditions),
    )


def composed(parts: Parts, of: Hypervisor) -> HypervisorStatus:
    return compose(parts, of, of.status, OWN)


def test_fields_not_observed_yet_are_kept_and_those_of_others_left_out() -> None:
    before = stored(condition(LINK), condition("Ready"))

    status = composed(Parts(), before)

    assert (status.libVirtVersion, status.instances) == ("8.0.0", STORED.instances)
    assert status.hypervisorId is None
    assert status.conditions == (condition(LINK),)


def test_condition_of_an_object_without_a_generation_has_none() -> None:
    parts = Parts(conditions={LINK: ConditionReport(TRUE, "Reason", "text", NOW)})
    for generation, expected in ((3, 3), (0, None)):
        (made,) = composed(parts, stored(generation=generation)).conditions
        assert made.observedGeneration == expected


def test_boot_and_its_stopped_guests_are_kept_until_this_process_has_its_own() -> None:
    stopped = GuestsStopped("b1", count=2)
    before = replace(STORED, bootID="b1", bootedAt=THEN, guestsStopped=stopped)
    unknown = compose(Parts(), stored(), before, OWN)
    assert (unknown.bootID, unknown.bootedAt, unknown.guestsStopped) == ("b1", THEN, stopped)
    known = compose(Parts(boot=Boot("b2", NOW)), stored(), before, OWN)
    assert (known.bootID, known.bootedAt, known.guestsStopped) == ("b2", NOW, stopped)


def test_observed_fields_replace_stored_ones() -> None:
    os, update = OperatingSystemStatus(version="2"), HyperVisorUpdateStatus(retry=1)

    status = composed(Parts(inventory=INVENTORY, operating_system=os, update=update), stored())

    assert (status.libVirtVersion, status.numInstances) == ("9.0.0", 0)
    assert (status.operatingSystem, status.updateStatus) == (os, update)


@pytest.mark.parametrize(
    ("before", "verdict", "since"),
    [
        pytest.param("True", TRUE, THEN, id="same status: the old time"),
        pytest.param("True", FALSE, NOW, id="other status: when it was observed"),
        pytest.param(None, TRUE, NOW, id="first time"),
    ],
)
def test_transition_time_changes_with_the_status_only(
    before: str | None, verdict: ConditionStatus, since: datetime
) -> None:
    old = stored(condition(LINK, before)) if before else stored()
    parts = Parts(conditions={LINK: ConditionReport(verdict, "Reason", "text", NOW)})

    (made,) = composed(parts, old).conditions

    assert made.lastTransitionTime == since
    assert (made.message, made.observedGeneration) == ("text", 3)


def test_condition_that_the_agent_drops_is_removed() -> None:
    assert composed(Parts(conditions={UNIT: None}), stored(condition(UNIT))).conditions == ()


def test_condition_that_the_server_would_refuse_drops_no_other() -> None:
    verdicts = {
        LINK: ConditionReport(TRUE, "Connected", "bytes \udcff", NOW),
        UNIT: ConditionReport(TRUE, "no reason", "", NOW),
    }

    (made,) = composed(Parts(conditions=verdicts), stored()).conditions

    assert (made.type, made.message) == (LINK, "bytes ?")


WANTED = HypervisorStatus(numInstances=0, conditions=(condition(LINK), condition(UNIT)))


@pytest.mark.parametrize(
    ("have", "right"),
    [
        pytest.param(WANTED, True, id="equal"),
        pytest.param(replace(WANTED, evicted=True), True, id="a field of others"),
        pytest.param(
            replace(WANTED, conditions=(condition("Ready"), *reversed(WANTED.conditions))),
            True,
            id="conditions of others, in another order",
        ),
        pytest.param(replace(WANTED, libVirtVersion=None), True, id="nothing there or wanted"),
        pytest.param(replace(WANTED, numInstances=2), False, id="changed"),
        pytest.param(replace(WANTED, conditions=(condition(LINK),)), False, id="one is missing"),
        pytest.param(
            replace(WANTED, conditions=(condition(LINK, "False"), condition(UNIT))),
            False,
            id="a condition changed",
        ),
        pytest.param(
            replace(WANTED, instances=STORED.instances), False, id="instances that are not"
        ),
    ],
)
def test_status_holds_when_the_server_has_every_wanted_field(
    have: HypervisorStatus, *, right: bool
) -> None:
    assert holds(have, WANTED, FIELDS) is right


def test_leftovers_are_our_fields_that_an_apply_did_not_remove() -> None:
    after = replace(STORED, libVirtVersion="9.0.0", numInstances=0)
    assert leftovers(after, replace(after, instances=()), FIELDS) == ("instances",)
    assert leftovers(HypervisorStatus(hypervisorId="theirs"), HypervisorStatus(), FIELDS) == ()


@given(
    st.dictionaries(
        st.sampled_from([LINK, UNIT, "Other"]),
        st.none()
        | st.builds(
            ConditionReport,
            st.sampled_from(ConditionStatus),
            st.text("aB9 _", max_size=4),
            st.text("a\n\udcff", max_size=4),
            st.just(NOW),
        ),
    )
)
def test_composed_status_holds_once_it_is_stored(
    conditions: dict[str, ConditionReport | None],
) -> None:
    parts = Parts(inventory=INVENTORY, conditions=conditions)
    status = composed(parts, stored(condition(LINK), condition("Ready")))

    assert holds(status, status, FIELDS)
    again = compose(parts, replace(stored(), status=status), status, OWN)
    assert again == status


@pytest.mark.parametrize(
    ("read", "shown"),
    [
        pytest.param(Boot(), ("b1", THEN), id="nothing"),
        pytest.param(Boot("", NOW), ("b1", THEN), id="no-id"),
        pytest.param(Boot("b1"), ("b1", THEN), id="the-same-without-its-time"),
        pytest.param(Boot("b2"), ("b2", None), id="another-without-its-time"),
    ],
)
def test_boot_that_could_not_be_read_replaces_no_known_one(
    read: Boot, shown: tuple[str, datetime | None]
) -> None:
    before = replace(STORED, bootID="b1", bootedAt=THEN, recentBoots=(THEN,))
    found = compose(Parts(boot=read), stored(), before, OWN)
    assert (found.bootID, found.bootedAt) == shown
    assert found.recentBoots == (THEN,)


@pytest.mark.parametrize(
    ("kept", "boot", "recent"),
    [
        pytest.param(("b1", (THEN,)), Boot("b1", NOW), (THEN,), id="the same boot"),
        pytest.param(("b1", ()), Boot("b2", NOW), (NOW,), id="another boot"),
        pytest.param(
            ("b1", (THEN, NOW - timedelta(minutes=9))), Boot("b2", NOW),
            (NOW - timedelta(minutes=9), NOW), id="of the last hour",
        ),
        pytest.param((None, ()), Boot("b1", NOW), (), id="the first one that is reported"),
        pytest.param(("b1", (THEN,)), None, (THEN,), id="not known yet"),
    ],
)  # fmt: skip
def test_boots_of_the_last_hour_are_reported(
    kept: tuple[str | None, tuple[datetime, ...]], boot: Boot | None, recent: tuple[datetime, ...]
) -> None:
    status = replace(STORED, bootID=kept[0], recentBoots=kept[1])
    assert compose(Parts(boot=boot), stored(), status, OWN).recentBoots == recent


def test_composed_fields_are_those_that_the_table_gives_the_agent() -> None:
    """Its policy refuses a status with any other."""
    kept = HypervisorStatus(
        **{name: f"stored {name}" for name in HypervisorStatus.__struct_fields__}  # type: ignore[arg-type]
    )
    kept = replace(kept, instances=STORED.instances, numInstances=1)
    parts = Parts(diagnostics=DiagnosticsEndpoint(url="https://a:1", certificateSHA256="0"))
    status, empty = compose(parts, stored(), kept, OWN), HypervisorStatus()
    given = {
        name for name in kept.__struct_fields__ if getattr(status, name) != getattr(empty, name)
    }
    assert given == set(written_by(Hypervisor, Writer.NODE_AGENT))


def test_a_message_is_cut_to_what_the_policy_takes() -> None:
    verdict = ConditionReport(FALSE, "Why", "x" * 5000, THEN)
    status = compose(Parts(conditions={LINK: verdict}), stored(), HypervisorStatus(), OWN)
    (found,) = status.conditions
    assert len(found.message) == AGENT_MESSAGE


POD = Instance("p", "default_guest", True, "default")
RUNS = RunningLauncher(pod="p", namespace="default", name="guest")


@pytest.mark.parametrize(
    ("parts", "ids", "number"),
    [
        pytest.param(Parts(), ["p", "u1"], 2, id="nothing-read-keeps-both"),
        pytest.param(Parts(launchers=()), ["u1"], 1, id="pod-has-ended-before-libvirt-is-read"),
        pytest.param(Parts(launchers=(RUNS,)), ["p", "u1"], 2, id="pod-runs-without-libvirt"),
        pytest.param(Parts(inventory=INVENTORY), ["p"], 1, id="systemd-not-read-keeps-the-pod"),
        pytest.param(Parts(inventory=INVENTORY, launchers=()), [], 0, id="all-read"),
        pytest.param(Parts(inventory=INVENTORY, launchers=(RUNS,)), ["p"], 1, id="pod-runs"),
    ],
)
def test_launcher_pods_are_kept_until_systemd_is_read(
    parts: Parts, ids: list[str], number: int
) -> None:
    before = stored()
    both = replace(before.status, instances=(POD, *before.status.instances), numInstances=2)
    given = composed(parts, replace(before, status=both))
    assert [one.id for one in given.instances] == ids
    assert given.numInstances == number
