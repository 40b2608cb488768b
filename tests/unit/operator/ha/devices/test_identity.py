"""Whose a fence device is: what a host that was taken over can reach by what it reports."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.operator.samples import hypervisor, node

from hypercobalt.adapters.fencing.devices import Identity
from hypercobalt.api.core import NodeSystemInfo
from hypercobalt.api.fencing import FenceDeviceIdentity
from hypercobalt.api.hypervisor import Hypervisor
from hypercobalt.operator.ha.devices.identity import (
    DeviceFacts,
    NotProven,
    OtherHost,
    Proven,
    claims,
    holder_among,
    judge,
    record_of,
    recorded,
    refusal,
)

MINE = "11111111-0000-4000-8000-000000000001"
OTHERS = "33333333-0000-4000-8000-000000000003"
ANOTHER = "44444444-0000-4000-8000-000000000004"
SWAPPED = "11111111-0000-0040-8000-000000000001"


def record(uuid: str, *, proven: bool = True) -> FenceDeviceIdentity:
    problem = None if proven else "bmc 1 reports another UUID"
    return FenceDeviceIdentity(device="bmc 1", systemUUID=uuid, proven=proven, problem=problem)


def facts(
    claimed: str = MINE,
    stored: FenceDeviceIdentity | None = None,
    identity: Identity = Identity.OPTIONAL,
    *,
    held: str = "",
) -> DeviceFacts:
    given = (claimed,) if claimed else ()
    return DeviceFacts("bmc 1", identity, given, stored, lambda it: "kvm-3" if it == held else "")


REPORTS = frozenset({MINE})


@pytest.mark.parametrize(
    ("asked", "reported", "verdict"),
    [
        pytest.param(facts(), {MINE}, Proven(MINE), id="both report the same"),
        pytest.param(facts(), {ANOTHER, MINE}, Proven(MINE), id="in one of the byte orders"),
        pytest.param(facts(), {OTHERS}, OtherHost, id="another host's device"),
        pytest.param(
            facts(OTHERS, held=OTHERS), {OTHERS}, OtherHost, id="claims what is proven for kvm-3"
        ),
        pytest.param(
            facts(OTHERS), {MINE}, OtherHost, id="claims another UUID: it is not fenced itself"
        ),
        pytest.param(
            facts(OTHERS, record(MINE)), {MINE}, Proven(MINE), id="its device was proven before"
        ),
        pytest.param(
            facts(ANOTHER, record(MINE)), {ANOTHER}, Proven(ANOTHER), id="has a new board"
        ),
        pytest.param(facts(MINE, record(MINE)), {OTHERS}, OtherHost, id="its device is another"),
        pytest.param(
            facts(MINE, record(OTHERS, proven=False)), {MINE}, Proven(MINE), id="was corrected"
        ),
        pytest.param(
            facts(MINE, record(OTHERS, proven=False)), {OTHERS}, OtherHost, id="is wrong still"
        ),
        pytest.param(facts(""), {MINE}, NotProven, id="host has reported none"),
        pytest.param(facts(), set[str](), NotProven, id="device has none"),
        pytest.param(facts(identity=Identity.IGNORED), {OTHERS}, NotProven, id="is not to be read"),
    ],
)
def test_device_is_the_hosts_where_both_report_one_uuid(
    asked: DeviceFacts, reported: set[str], verdict: Proven | type
) -> None:
    found = judge(asked, frozenset(reported), "")
    assert found == verdict if isinstance(verdict, Proven) else isinstance(found, verdict)


def test_device_that_reports_another_hosts_uuid_names_that_host() -> None:
    found = judge(facts(OTHERS, held=OTHERS), frozenset({OTHERS}), "")
    assert isinstance(found, OtherHost)
    assert "kvm-3" in found.why
    assert OTHERS in found.why
    several = judge(facts(), frozenset({ANOTHER, OTHERS}), "")
    assert isinstance(several, OtherHost)
    assert several.uuid == OTHERS


@pytest.mark.parametrize(
    ("asked", "reported", "unread", "refused"),
    [
        pytest.param(facts(), {MINE}, "", "", id="proves it now"),
        pytest.param(facts(stored=record(MINE)), {MINE}, "", "", id="as before"),
        pytest.param(facts(), {OTHERS}, "", OTHERS, id="another host's"),
        pytest.param(
            facts(OTHERS, record(MINE)), {OTHERS}, "", "before", id="moved, and the host lies"
        ),
        pytest.param(facts(MINE, record(MINE), held=MINE), {MINE}, "", "kvm-3", id="is two hosts'"),
        pytest.param(
            facts(stored=record(OTHERS, proven=False)), {MINE}, "", "reports another", id="wrong"
        ),
        pytest.param(facts(), set[str](), "", "", id="has none, optional"),
        pytest.param(facts(), set[str](), "no answer", "", id="is not read, optional"),
        pytest.param(
            facts(stored=record(MINE)), set[str](), "no answer", "no answer", id="proved before"
        ),
        pytest.param(facts(identity=Identity.REQUIRED), set[str](), "", "required", id="required"),
        pytest.param(
            facts("", identity=Identity.REQUIRED), {MINE}, "", "required", id="host told none"
        ),
        pytest.param(facts("", stored=record(MINE)), {MINE}, "", "", id="host tells no more"),
        pytest.param(
            facts(stored=replace(record(OTHERS, proven=False), problem=None)),
            {MINE},
            "",
            "is another host's device",
            id="wrong, without a reason",
        ),
        pytest.param(facts(MINE, record(MINE), Identity.IGNORED), set[str](), "", "", id="no more"),
        pytest.param(
            facts(MINE, record(OTHERS, proven=False), Identity.IGNORED),
            {OTHERS},
            "",
            "",
            id="is not to be read",
        ),
    ],
)
def test_device_is_used_where_it_is_not_another_hosts(
    asked: DeviceFacts, reported: set[str], unread: str, refused: str
) -> None:
    why = refusal(asked, frozenset(reported), unread)
    assert (refused in why) if refused else not why


def test_verdicts_are_recorded_that_decide_something() -> None:
    assert recorded("bmc 1", Proven(MINE)) == record(MINE)
    other = recorded("bmc 1", OtherHost(OTHERS, "wrong"))
    assert other == replace(record(OTHERS), proven=False, problem="wrong")
    assert recorded("bmc 1", NotProven("no answer")) is None


def with_records(name: str, *records: FenceDeviceIdentity) -> Hypervisor:
    made = hypervisor()
    status = replace(made.status, fenceDevices=records)
    return replace(made, metadata=replace(made.metadata, name=name), status=status)


def test_uuid_is_held_by_the_host_whose_device_has_proven_it() -> None:
    fleet = (
        with_records("kvm-1", record(MINE)),
        with_records("kvm-2", record(OTHERS, proven=False)),
        with_records("kvm-3", record(ANOTHER), record(OTHERS)),
    )
    assert holder_among(fleet, "kvm-1", MINE) == ""
    assert holder_among(fleet, "kvm-2", MINE) == "kvm-1"
    assert holder_among(fleet[:2], "kvm-1", OTHERS) == ""
    assert holder_among(fleet, "kvm-1", OTHERS) == "kvm-3"
    assert record_of(fleet[0], "bmc 1") == record(MINE)
    assert record_of(fleet[0], "bmc 2") is None
    assert record_of(None, "bmc 1") is None


@pytest.mark.parametrize(
    ("agents", "kubelets", "expected"),
    [
        (MINE.upper(), "", {MINE, SWAPPED}),
        (None, MINE, {MINE, SWAPPED}),
        ("unknown", "00000000-0000-0000-0000-000000000000", set[str]()),
        (OTHERS, MINE, {OTHERS, "33333333-0000-0040-8000-000000000003", MINE, SWAPPED}),
    ],
)
def test_host_claims_what_its_agent_and_its_kubelet_report(
    agents: str | None, kubelets: str, expected: set[str]
) -> None:
    made, on = hypervisor(), node()
    found = replace(made, status=replace(made.status, hostUUID=agents))
    info = NodeSystemInfo(systemUUID=kubelets)
    reported = claims(found, replace(on, status=replace(on.status, nodeInfo=info)))
    assert set(reported) == expected
    assert claims(None, on) == ()
